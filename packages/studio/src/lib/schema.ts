// Forms from JSON Schema, and the check of what was filled in. The server checks again; this tells it sooner.

export type Schema = {
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  items?: Schema;
  enum?: unknown[];
  const?: unknown;
  default?: unknown;
  format?: string;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
  multipleOf?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  minItems?: number;
  maxItems?: number;
  additionalProperties?: boolean | Schema;
  anyOf?: Schema[];
  oneOf?: Schema[];
  $ref?: string;
  $defs?: Record<string, Schema>;
  definitions?: Record<string, Schema>;
};

export type FieldKind = "text" | "long-text" | "number" | "boolean" | "choice" | "lines" | "json";

/** One control of a form. */
export type Field = {
  name: string;
  label: string;
  help?: string;
  kind: FieldKind;
  required: boolean;
  schema: Schema;
  choices?: unknown[];
};

/** A form: the fields of an object, or one field whose value is the whole result. */
export type Form = { fields: Field[]; whole: boolean; root: Schema };

/** What is in the controls: text, or for a boolean whether it is checked. */
export type Values = Record<string, string | boolean>;

/** The name of the field whose value is the whole result. */
export const WHOLE = "";

function resolve(schema: Schema, root: Schema): Schema {
  const name = schema.$ref?.match(/^#\/(?:\$defs|definitions)\/([^/]+)$/)?.[1];
  const found = name === undefined ? undefined : (root.$defs?.[name] ?? root.definitions?.[name]);
  if (found) return resolve({ ...found, ...(schema.description ? { description: schema.description } : {}) }, root);
  // `anyOf: [X, null]` is an optional X.
  const choices = (schema.anyOf ?? schema.oneOf)?.filter((one) => one.type !== "null");
  if (choices?.length === 1 && choices[0]) return resolve({ ...choices[0], title: schema.title ?? choices[0].title, description: schema.description ?? choices[0].description }, root);
  return schema;
}

function typeOf(schema: Schema): string | undefined {
  return Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
}

function field(name: string, given: Schema, required: boolean, root: Schema): Field {
  const schema = resolve(given, root);
  const made = (kind: FieldKind): Field => ({
    name,
    label: schema.title ?? (name || "Result"),
    help: schema.description,
    kind,
    required,
    schema,
    ...(schema.enum ? { choices: schema.enum } : {}),
  });
  if (schema.enum?.length) return made("choice");
  switch (typeOf(schema)) {
    case "string":
      return made(schema.format === "textarea" || (schema.maxLength ?? 0) > 160 ? "long-text" : "text");
    case "integer":
    case "number":
      return made("number");
    case "boolean":
      // A box is either ticked or not: one that may be left out, and has no usual value, is a choice.
      return required || typeof schema.default === "boolean" ? made("boolean") : { ...made("choice"), choices: [true, false] };
    case "array":
      return made(typeOf(resolve(schema.items ?? {}, root)) === "string" ? "lines" : "json");
    default:
      return made("json");
  }
}

/** The form for the result of a client tool: from its schema, else from the names in `fields`, else one for JSON. */
export function formFor(outputSchema: Schema | undefined, input: unknown): Form {
  if (outputSchema && typeof outputSchema === "object") {
    const root = resolve(outputSchema, outputSchema);
    const properties = Object.entries(root.properties ?? {});
    if (typeOf(root) === "object" || properties.length) {
      if (properties.length) {
        const all = properties.map(([name, schema]) => field(name, schema, root.required?.includes(name) ?? false, outputSchema));
        return { fields: all, whole: false, root: outputSchema };
      }
    } else if (typeOf(root) || root.enum) {
      return { fields: [field(WHOLE, root, true, outputSchema)], whole: true, root: outputSchema };
    }
    return { fields: [{ ...field(WHOLE, {}, true, {}), schema: root }], whole: true, root: outputSchema };
  }
  const names = (input as { fields?: unknown } | null | undefined)?.fields;
  if (Array.isArray(names) && names.length && names.every((one) => typeof one === "string")) {
    const all = [...new Set(names as string[])].map((name) => field(name, { type: "string" }, false, {}));
    return { fields: all, whole: false, root: {} };
  }
  return { fields: [field(WHOLE, {}, true, {})], whole: true, root: {} };
}

/** The values with which a form begins. */
export function initialValues(form: Form): Values {
  return Object.fromEntries(
    form.fields.map((one) => {
      const given = one.schema.default;
      if (one.kind === "boolean") return [one.name, given === true];
      if (given === undefined) return [one.name, ""];
      return [one.name, typeof given === "string" ? given : JSON.stringify(given)];
    }),
  );
}

/** Whether the value of a field may be a text without characters, which is a text like others. */
export function mayBeEmpty({ kind, required, schema }: Field): boolean {
  const isText = kind === "text" || kind === "long-text";
  if (!isText || schema.minLength || schema.format) return false;
  return required || Object.keys(schema).length === 1;
}

/** One field's value, `undefined` where nothing was given; throws a sentence. */
function valueOf(one: Field, given: string | boolean): unknown {
  if (typeof given === "boolean") return given;
  if (one.kind === "lines") {
    const lines = given.split("\n").map((line) => line.trim()).filter(Boolean);
    return lines.length || one.required ? lines : undefined;
  }
  if (given === "") return mayBeEmpty(one) ? "" : undefined;
  if ((one.kind === "number" || one.kind === "json") && !given.trim()) return undefined;
  switch (one.kind) {
    case "number": {
      const number = Number(given);
      if (!Number.isFinite(number)) throw new Error("must be a number");
      return number;
    }
    case "choice":
      return one.choices?.find((choice) => (typeof choice === "string" ? choice : JSON.stringify(choice)) === given);
    case "json":
      try {
        return JSON.parse(given);
      } catch {
        throw new Error("must be JSON: texts in double quotes, objects as {\"name\": value}");
      }
    default:
      return given;
  }
}

export type Read = { ok: true; value: unknown } | { ok: false; errors: Record<string, string> };

/** Reads a form: its result, or what is wrong with which field. */
export function readForm(form: Form, values: Values): Read {
  const errors: Record<string, string> = {};
  const result: Record<string, unknown> = {};
  for (const one of form.fields) {
    try {
      const value = valueOf(one, values[one.name] ?? "");
      if (value === undefined) {
        if (one.required) errors[one.name] = "is required";
        continue;
      }
      const wrong = check(one.schema, value, form.root);
      if (wrong) errors[one.name] = wrong;
      else result[one.name] = value;
    } catch (error) {
      errors[one.name] = (error as Error).message;
    }
  }
  if (Object.keys(errors).length) return { ok: false, errors };
  return { ok: true, value: form.whole ? result[WHOLE] : result };
}

const kindOf = (value: unknown): string => (value === null ? "null" : Array.isArray(value) ? "array" : typeof value);

function hasType(type: string, value: unknown): boolean {
  if (type === "integer") return Number.isInteger(value);
  return type === kindOf(value);
}

const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** What is wrong with a value, if anything, as a sentence without its subject. */
export function check(given: Schema, value: unknown, root: Schema, path = ""): string | undefined {
  const schema = resolve(given, root);
  const say = (text: string) => (path ? `${path} ${text}` : text);
  const types = schema.type === undefined ? [] : [schema.type].flat();
  if (types.length && !types.some((type) => hasType(type, value))) return say(`must be ${types.map(named).join(" or ")}`);
  if (schema.enum && !schema.enum.some((one) => same(one, value))) return say(`must be one of ${schema.enum.map((one) => JSON.stringify(one)).join(", ")}`);
  if (schema.const !== undefined && !same(schema.const, value)) return say(`must be ${JSON.stringify(schema.const)}`);
  if (typeof value === "number") {
    if (schema.minimum !== undefined && value < schema.minimum) return say(`must be at least ${schema.minimum}`);
    if (schema.maximum !== undefined && value > schema.maximum) return say(`must be at most ${schema.maximum}`);
    if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) return say(`must be more than ${schema.exclusiveMinimum}`);
    if (schema.exclusiveMaximum !== undefined && value >= schema.exclusiveMaximum) return say(`must be less than ${schema.exclusiveMaximum}`);
    if (schema.multipleOf && Math.abs(value / schema.multipleOf - Math.round(value / schema.multipleOf)) > 1e-9) return say(`must be a multiple of ${schema.multipleOf}`);
  }
  if (typeof value === "string") {
    const length = [...value].length;
    if (schema.minLength !== undefined && length < schema.minLength) return say(`must have at least ${schema.minLength} ${schema.minLength === 1 ? "character" : "characters"}`);
    if (schema.maxLength !== undefined && length > schema.maxLength) return say(`must have at most ${schema.maxLength} characters`);
    if (schema.pattern !== undefined && !matches(schema.pattern, value)) return say(`must look like ${schema.pattern}`);
  }
  if (Array.isArray(value)) {
    if (schema.minItems !== undefined && value.length < schema.minItems) return say(`must have at least ${schema.minItems}`);
    if (schema.maxItems !== undefined && value.length > schema.maxItems) return say(`must have at most ${schema.maxItems}`);
    for (const [at, item] of value.entries()) {
      const wrong = schema.items && check(schema.items, item, root, `${path}[${at}]`);
      if (wrong) return wrong;
    }
  } else if (typeof value === "object" && value !== null) {
    for (const name of schema.required ?? []) if (!(name in value)) return say(`needs "${name}"`);
    for (const [name, item] of Object.entries(value)) {
      const known = schema.properties?.[name];
      const inside = path ? `${path}.${name}` : name;
      if (!known && schema.additionalProperties === false) return `${inside} is not known`;
      const wrong = known && check(known, item, root, inside);
      if (wrong) return wrong;
    }
  }
  return undefined;
}

const named = (type: string) => ({ integer: "a whole number", number: "a number", string: "a text", boolean: "true or false", array: "a list", object: "an object", null: "null" })[type] ?? type;

function matches(pattern: string, value: string): boolean {
  try {
    return new RegExp(pattern, "u").test(value);
  } catch {
    // Not a pattern of this language: the server decides.
    return true;
  }
}
