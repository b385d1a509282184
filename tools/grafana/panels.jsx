// A panel of a dashboard as Grafana's panel of that kind draws it: frames, transformations, overrides, component.
import {
  applyFieldOverrides, cacheFieldDisplayNames, dataLinksOverrideProcessor, displayNameOverrideProcessor, FieldConfigOptionsRegistry, FieldType,
  getDisplayValueAlignmentFactors, getFieldDisplayValues, identityOverrideProcessor, numberOverrideProcessor, thresholdsOverrideProcessor,
  transformDataFrame, unitOverrideProcessor, valueMappingsOverrideProcessor,
} from '@grafana/data';
import { BarGauge, BigValue, DataLinksContextMenu, TimeSeries, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { lastValueFrom } from 'rxjs';
import { Annotations, eventsOf } from './annotations.jsx';
import { framesOf } from './frames.js';

const STANDARD = {
  unit: unitOverrideProcessor, min: numberOverrideProcessor, max: numberOverrideProcessor, decimals: numberOverrideProcessor,
  displayName: displayNameOverrideProcessor, links: dataLinksOverrideProcessor, mappings: valueMappingsOverrideProcessor,
  thresholds: thresholdsOverrideProcessor, color: identityOverrideProcessor, noValue: identityOverrideProcessor,
  fieldMinMax: identityOverrideProcessor, filterable: identityOverrideProcessor,
};
const GRAFANAS = { mode: 'absolute', steps: [{ value: null, color: 'green' }, { value: 80, color: 'red' }] }; // where a panel says nothing
const NAME_HEIGHT = 16; // px

function registry(config) {
  const custom = new Set(Object.keys(config.defaults.custom ?? {}));
  for (const { properties } of config.overrides ?? []) {
    properties.filter(({ id }) => id.startsWith('custom.')).forEach(({ id }) => custom.add(id.slice(7)));
  }
  const item = (id, path, process, isCustom) => ({ id, path, name: id, process, isCustom, settings: {}, shouldApply: () => true });
  return new FieldConfigOptionsRegistry(() => [
    ...Object.entries(STANDARD).map(([id, process]) => item(id, id, process, false)),
    ...[...custom].map((path) => item(`custom.${path}`, path, identityOverrideProcessor, true)),
  ]);
}

function fieldConfigOf(panel) {
  const config = structuredClone(panel.fieldConfig ?? { defaults: {}, overrides: [] });
  for (const thresholds of [config.defaults.thresholds ?? (config.defaults.thresholds = structuredClone(GRAFANAS)),
    ...(config.overrides ?? []).flatMap(({ properties }) => properties.filter(({ id }) => id === 'thresholds').map(({ value }) => value))]) {
    thresholds.steps[0].value = -Infinity; // JSON has no infinity
  }
  config.defaults.color ??= { mode: panel.type === 'timeseries' ? 'palette-classic' : 'thresholds' };
  config.overrides ??= [];
  return config;
}

export async function drawn({ panel, targets, scoped = {} }, { theme, timeRange, expand, annotations }) {
  const replaceVariables = (text, more, format) => expand(text, { ...scoped, ...more }, format);
  const fieldConfig = fieldConfigOf(panel);
  const raw = framesOf(targets);
  const series = await lastValueFrom(transformDataFrame(panel.transformations ?? [], raw, { interpolate: (text) => replaceVariables(text) }));
  const frames = applyFieldOverrides({
    data: series, fieldConfig, replaceVariables, theme, timeZone: 'utc', fieldConfigRegistry: registry(fieldConfig),
  });
  cacheFieldDisplayNames(frames);
  const title = replaceVariables(panel.title);
  const options = panel.options ?? {};
  const given = { panel, frames, fieldConfig, options, theme, timeRange, replaceVariables, events: annotations.map(eventsOf) };
  const kinds = { stat, bargauge, table, timeseries };
  const kind = kinds[panel.type] ?? notHere;
  return { title, render: (width, height) => kind({ ...given, width, height }) };
}

function values({ frames, fieldConfig, options, theme, replaceVariables }, sparkline) {
  return getFieldDisplayValues({ fieldConfig, reduceOptions: options.reduceOptions, replaceVariables, theme, data: frames, sparkline, timeZone: 'utc' });
}

function linked(value, draw) {
  return value.hasLinks && value.getLinks ? <DataLinksContextMenu links={value.getLinks} style={{ display: 'flex', flexGrow: 1 }}>{draw}</DataLinksContextMenu> : draw({});
}

function stat(given) {
  const { options, theme, width, height, fieldConfig } = given;
  return (
    <VizRepeater
      getValues={() => values(given, options.graphMode !== 'none')}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, width: w, height: h, alignmentFactors, count }) => linked(value, (api) => (
        <BigValue
          value={value.display} count={count} sparkline={value.sparkline} colorMode={options.colorMode ?? 'value'} graphMode={options.graphMode ?? 'area'}
          justifyMode={options.justifyMode ?? 'auto'} textMode={options.textMode ?? 'auto'} alignmentFactors={alignmentFactors} text={options.text}
          width={w} height={h} theme={theme} onClick={api.openMenu} className={api.targetClassName} wideLayout={options.wideLayout ?? true}
        />
      ))}
      width={width} height={height} source={given.frames} itemSpacing={3} renderCounter={0} autoGrid orientation={options.orientation ?? 'auto'}
    />
  );
}

function bargauge(given) {
  const { frames, options, theme, width, height } = given;
  if (!frames.some((frame) => frame.length)) {
    return <Nothing {...given} />;
  }
  return (
    <VizRepeater
      getValues={() => values(given, false)}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      renderValue={({ value, width: w, height: h, alignmentFactors, orientation, isOverflow }) => linked(value, (api) => (
        <BarGauge
          value={value.display} width={w} height={h} orientation={orientation} field={value.field} text={options.text} display={value.view?.getFieldDisplayProcessor(value.colIndex)}
          theme={theme} itemSpacing={8} lcdCellWidth={12} displayMode={options.displayMode ?? 'gradient'} onClick={api.openMenu} className={api.targetClassName}
          alignmentFactors={alignmentFactors} showUnfilled={options.showUnfilled ?? true} valueDisplayMode={options.valueMode ?? 'color'}
          namePlacement={options.namePlacement ?? 'auto'} isOverflow={isOverflow}
        />
      ))}
      width={width} height={height} source={frames} minVizWidth={options.minVizWidth ?? 8} minVizHeight={options.minVizHeight ?? NAME_HEIGHT}
      maxVizHeight={options.maxVizHeight ?? 300} itemSpacing={8} renderCounter={0} orientation={options.orientation ?? 'auto'}
    />
  );
}

function table(given) {
  const { frames, options, width, height, fieldConfig, timeRange } = given;
  if (!frames.length || !frames[0].fields.length || !frames[0].length) {
    return <Nothing {...given} />;
  }
  return (
    <TableNG
      data={frames[0]} width={width} height={height} noHeader={options.showHeader === false} sortBy={options.sortBy} cellHeight={options.cellHeight ?? 'sm'}
      fieldConfig={fieldConfig} timeRange={timeRange} structureRev={1} enableVirtualization columnMinWidth={fieldConfig.defaults.custom?.minWidth}
    />
  );
}

function timeseries(given) {
  const { frames, options, width, height, timeRange, theme, events } = given;
  if (!frames.some((frame) => frame.length)) {
    return <Nothing {...given} />;
  }
  for (const frame of frames) {
    for (const field of frame.fields.filter(({ type }) => type === FieldType.number)) {
      field.values = field.values.map((value) => (Number.isFinite(value) ? value : null)); // prepareGraphableFields
    }
  }
  const legend = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [], ...options.legend };
  return (
    <TimeSeries frames={frames} structureRev={1} timeRange={timeRange} timeZone={['utc']} width={width} height={height} legend={legend} options={options}>
      {(config) => <Annotations config={config} events={events} theme={theme} />}
    </TimeSeries>
  );
}

function Nothing({ fieldConfig, theme, height }) { // PanelDataErrorView
  return (
    <div data-nothing style={{ height, display: 'flex', alignItems: 'center', justifyContent: 'center', color: theme.colors.text.secondary }}>
      {fieldConfig.defaults.noValue ?? 'No data'}
    </div>
  );
}

function notHere({ panel, theme, height }) {
  return (
    <div data-not-here style={{ height, display: 'flex', alignItems: 'center', justifyContent: 'center', color: theme.colors.text.secondary }}>
      {panel.type}: Grafana publishes no panel of this kind
    </div>
  );
}
