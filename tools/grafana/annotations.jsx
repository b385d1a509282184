// A dashboard's annotations on a time series: Grafana's EventsCanvas places them; line and mark are drawn as its server's page draws them.
import { useLayoutEffect, useRef } from 'react';
import { FieldType, toDataFrame } from '@grafana/data';
import { EventsCanvas } from '@grafana/ui';
import { legendOf } from './frames.js';

// Each start of a series is an event; what follows at once is the same one (@grafana/prometheus, annotations.ts).
export function eventsOf({ name, color, title, text, step, result }) {
  const found = result.flatMap(({ metric, values }) =>
    values.filter(([at], index) => !index || at - values[index - 1][0] > 1.5 * step).map(([at]) => ({
      time: at * 1000, title: legendOf(title, metric), text: legendOf(text, metric),
    })));
  return toDataFrame({
    name,
    meta: { custom: { color } },
    fields: [
      { name: 'time', type: FieldType.time, values: found.map(({ time }) => time) },
      { name: 'title', type: FieldType.string, values: found.map(({ title: said }) => said) },
      { name: 'text', type: FieldType.string, values: found.map(({ text: said }) => said) },
    ],
  });
}

const at = (frame, name, index) => frame.fields.find((field) => field.name === name).values[index];

export function Annotations({ config, events, theme }) {
  const plot = useRef();
  const colorOf = (frame) => theme.visualization.getColorByName(frame.meta.custom.color);
  useLayoutEffect(() => {
    config.addHook('init', (made) => {
      plot.current = made;
    });
    config.addHook('draw', (drawn) => {
      const { ctx, bbox } = drawn;
      ctx.save();
      ctx.setLineDash([5, 5]);
      ctx.lineWidth = 2 * devicePixelRatio;
      for (const frame of events) {
        ctx.strokeStyle = colorOf(frame);
        for (let index = 0; index < frame.length; index++) {
          const x = drawn.valToPos(at(frame, 'time', index), 'x', true);
          ctx.beginPath();
          ctx.moveTo(x, bbox.top);
          ctx.lineTo(x, bbox.top + bbox.height);
          ctx.stroke();
        }
      }
      ctx.restore();
    });
  }, [config, events]);
  const mark = (frame, index) => (
    <div
      data-annotation={`${at(frame, 'title', index)} ${at(frame, 'text', index)}`.trim()}
      style={{ color: colorOf(frame), width: 0, height: 0, margin: '0 -5px', border: '5px solid transparent', borderTop: 0, borderBottomColor: 'currentColor' }}
    />
  );
  const place = (frame, index) => plot.current && {
    x: plot.current.valToPos(at(frame, 'time', index), 'x'), y: plot.current.bbox.height / devicePixelRatio + 4,
  };
  return <EventsCanvas id="annotations" config={config} events={events} renderEventMarker={mark} mapEventToXYCoords={place} />;
}
