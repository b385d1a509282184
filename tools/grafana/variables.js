// What ${...} becomes. In Grafana this is done by its server's pages; here only the forms that our dashboards use.
const FORM = /\$\{([^}:[\]]+(?:\["[^"]+"\])?)(?::(\w+))?\}|\$(\w+)/g;

// values: name -> list of values as they stand in a URL.
export function expander(values, raw) {
  const param = (name) => values[name].map((value) => `var-${name}=${encodeURIComponent(value)}`).join('&');
  const own = {
    __url_time_range: () => `from=${raw.from}&to=${raw.to}`,
    __all_variables: () => Object.keys(values).map(param).join('&'),
  };
  return (text, scoped = {}, format) => {
    if (typeof text !== 'string') {
      return text;
    }
    return text.replace(FORM, (whole, braced, form, bare) => {
      const name = braced ?? bare;
      const encode = (value) => (format === undefined || typeof format === 'function' ? String(value) : encodeURIComponent(value));
      if (own[name]) {
        return own[name]();
      }
      const cell = name.match(/^__data\.fields(?:\.(.+)|\["(.+)"\])$/);
      if (cell) {
        return encode(ofRow(scoped, cell[1] ?? cell[2]) ?? whole);
      }
      const label = name.match(/^__field\.labels\.(\w+)$/);
      if (label) {
        return encode(scoped.__dataContext?.value.field.labels?.[label[1]] ?? whole);
      }
      if (name === '__value.text' || name === '__value.raw') {
        const { field, rowIndex } = scoped.__dataContext.value;
        const value = field.values[rowIndex];
        return form === 'raw' ? String(value) : encode(name === '__value.raw' ? value : field.display(value).text);
      }
      if (scoped[name] !== undefined) {
        return form === 'queryparam' ? `var-${name}=${encodeURIComponent(scoped[name].value)}` : String(scoped[name].text);
      }
      if (values[name] === undefined) {
        return whole;
      }
      return form === 'queryparam' ? param(name) : values[name].join(' + ').replace('$__all', 'All');
    });
  };
}

function ofRow(scoped, name) {
  const { frame, rowIndex } = scoped.__dataContext?.value ?? {};
  const field = frame?.fields.find((one) => [one.config.displayName, one.name, one.state?.displayName].includes(name));
  return field?.values[rowIndex];
}
