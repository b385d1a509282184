// Prometheus' answers as the frames that Grafana's data source makes of them (@grafana/prometheus, result_transformer.ts).
import { FieldType, toDataFrame } from '@grafana/data';

const number = (text) => (text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : text === null ? null : Number(text));

export function framesOf(targets) {
  const tables = targets.filter(({ format }) => format === 'table');
  return targets.flatMap((target) => (target.format === 'table' ? [tableOf(target, tables.length > 1)] : target.result.map((one) => lineOf(target, one)))).filter((frame) => frame.length);
}

function lineOf({ refId, legend, instant, step }, { metric, value, values }) {
  const points = instant ? [value] : filled(values, step);
  const name = legendOf(legend, metric);
  return toDataFrame({
    refId,
    name,
    fields: [
      { name: 'Time', type: FieldType.time, values: points.map(([at]) => at * 1000), config: { interval: step * 1000 } },
      { name: 'Value', type: FieldType.number, labels: metric, config: { displayNameFromDS: name }, values: points.map(([, text]) => number(text)) },
    ],
  });
}

// Where a step has no value there is a gap in the line, as Grafana's backend puts it.
function filled(values, step) {
  return values.flatMap((point, index) => (index && point[0] - values[index - 1][0] > 1.5 * step ? [[values[index - 1][0] + step, null], point] : [point]));
}

export function legendOf(legend, metric) {
  if (legend && legend !== '__auto') {
    return legend.replace(/\{\{\s*(.+?)\s*\}\}/g, (whole, label) => metric[label] ?? '').replace(/ {2,}/g, ' ').trim();
  }
  const { __name__: name = '', ...labels } = metric;
  const inner = Object.entries(labels).map(([key, value]) => `${key}="${value}"`).join(', ');
  return inner ? `${name}{${inner}}` : name || 'Value';
}

function tableOf({ refId, result }, several) {
  const labels = [...new Set(result.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return toDataFrame({
    refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: result.map(({ value }) => value[0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, config: { filterable: true }, values: result.map(({ metric }) => metric[label] ?? '') })),
      { name: several ? `Value #${refId}` : 'Value', type: FieldType.number, values: result.map(({ value }) => number(value[1])) },
    ],
  });
}
