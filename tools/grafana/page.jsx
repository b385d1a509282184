// One dashboard, drawn by Grafana's own panels; draw.mjs calls `draw` with what tools/grafana_queries.py found out.
//
// What is Grafana's: how data becomes frames, transformations, overrides, colours, texts, and the panels themselves.
// What is ours, since it is only in Grafana's server: the shape of Prometheus' frames, what ${...} becomes, the grid.
import '@fontsource/inter/latin-400.css';
import '@fontsource/inter/latin-500.css';
import { Component } from 'react';
import { createRoot } from 'react-dom/client';
import { flushSync } from 'react-dom';
import { createTheme, dateTime, EventBusSrv, locationUtil, setTimeZoneResolver, standardTransformers, standardTransformersRegistry, ThemeContext } from '@grafana/data';
import { GlobalStyles, PanelChrome, PanelContextProvider } from '@grafana/ui';
import { drawn } from './panels.jsx';
import { expander } from './variables.js';

const COLUMNS = 24;
const ROW = 30; // px; between two of them is GAP
const GAP = 8;

locationUtil.initialize({ config: { appSubUrl: '' }, getVariablesUrlParams: () => ({}), getTimeRangeForUrl: () => ({}) });
setTimeZoneResolver(() => 'utc');
standardTransformersRegistry.setInit(() =>
  [...new Map(Object.values(standardTransformers).map((one) => [one.id, one])).values()].map((one) => ({ id: one.id, name: one.name, transformation: async () => one }))
);

class Guard extends Component {
  state = {};
  static getDerivedStateFromError(error) {
    return { error };
  }
  render() {
    return this.state.error ? <pre data-broken>{String(this.state.error.stack)}</pre> : this.props.children;
  }
}

function Panel({ panel, targets, dashboard, width, height, content }) {
  return (
    <PanelChrome title={content.title} description={panel.description} width={width} height={height} padding={panel.type === 'table' ? 'none' : 'md'}>
      {(w, h) => <Guard>{content.render(w, h)}</Guard>}
    </PanelChrome>
  );
}

const fonts = Promise.all(['400', '500'].map((weight) => document.fonts.load(`${weight} 14px Inter`))); // before Grafana names its own
let root; // of the dashboard that is drawn

window.draw = async (dashboard, { width, mode }) => {
  const theme = createTheme({ colors: { mode } });
  const timeRange = { from: dateTime(dashboard.from * 1000), to: dateTime(dashboard.to * 1000), raw: dashboard.raw };
  const expand = expander(dashboard.variables, dashboard.raw);
  const contents = await Promise.all(dashboard.panels.map((one) => drawn(one, { theme, timeRange, expand, annotations: dashboard.annotations })));
  await fonts;
  document.documentElement.style.background = theme.colors.background.canvas;
  const column = (width - GAP) / COLUMNS;
  const bottom = Math.max(0, ...dashboard.panels.map(({ panel }) => panel.gridPos.y + panel.gridPos.h));
  const box = ({ x, y, w, h }) => ({ left: GAP + x * column, top: y * (ROW + GAP), width: w * column - GAP, height: h * (ROW + GAP) - GAP });
  const context = { eventBus: new EventBusSrv(), canExecuteActions: () => false };
  root?.unmount();
  root = createRoot(document.getElementById('root'));
  flushSync(() =>
    root.render(
      <ThemeContext.Provider value={theme}>
        <GlobalStyles hackNoBackdropBlur isExtensionSidebarOpen={false} />
        <PanelContextProvider value={context}>
          <h1 style={{ font: '500 18px Inter', margin: 12, color: theme.colors.text.primary }}>
            {dashboard.title}
            <small style={{ fontSize: 12, fontWeight: 400, marginLeft: 16, color: theme.colors.text.secondary }}>{dashboard.chosen}</small>
          </h1>
          <nav style={{ margin: '0 12px 8px', fontSize: 12 }}>
            {dashboard.links.map(({ title, url }) => (
              <a key={title} href={expand(url, {})} style={{ marginRight: 16, color: theme.colors.text.link }}>{title}</a>
            ))}
          </nav>
          <div style={{ position: 'relative', width, height: bottom * (ROW + GAP) + GAP }}>
            {dashboard.panels.map(({ panel, key }, index) => {
              const place = box(panel.gridPos);
              return (
                <div key={key} data-panel={contents[index].title} data-kind={panel.type} style={{ position: 'absolute', ...place }}>
                  <Panel panel={panel} width={place.width} height={place.height} content={contents[index]} />
                </div>
              );
            })}
          </div>
        </PanelContextProvider>
      </ThemeContext.Provider>
    )
  );
  return document.documentElement.scrollHeight;
};
