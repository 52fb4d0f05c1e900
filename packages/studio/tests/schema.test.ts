import { describe, expect, it } from "vitest";

import { type Schema, WHOLE, check, formFor, initialValues, mayBeEmpty, readForm } from "../src/lib/schema";

const box: Schema = {
  type: "object",
  required: ["color", "size"],
  properties: {
    color: { type: "string", title: "Colour", description: "What it looks like", enum: ["red", "green"] },
    size: { type: "integer", minimum: 1, maximum: 10 },
    gift: { type: "boolean", default: true },
    note: { anyOf: [{ type: "string", maxLength: 200 }, { type: "null" }] },
    labels: { type: "array", items: { $ref: "#/$defs/label" }, maxItems: 2 },
    extra: { type: "object", required: ["id"], properties: { id: { type: "string" } } },
  },
  $defs: { label: { type: "string", minLength: 2 } },
};

describe("forms from a schema", () => {
  it("have a control of the right kind for each property", () => {
    const form = formFor(box, {});
    expect(form.fields.map((one) => [one.name, one.label, one.kind, one.required])).toEqual([
      ["color", "Colour", "choice", true],
      ["size", "size", "number", true],
      ["gift", "gift", "boolean", false],
      ["note", "note", "long-text", false],
      ["labels", "labels", "lines", false],
      ["extra", "extra", "json", false],
    ]);
    expect(form.fields[0]?.help).toBe("What it looks like");
    expect(initialValues(form)).toMatchObject({ color: "", gift: true });
  });

  it("give what was filled in, in its type, and leave out what was not", () => {
    const form = formFor(box, {});
    const values = { ...initialValues(form), color: "red", size: "3", labels: "one\n\n two ", extra: '{"id":"x"}' };
    expect(readForm(form, values)).toEqual({ ok: true, value: { color: "red", size: 3, gift: true, labels: ["one", "two"], extra: { id: "x" } } });
  });

  it("tell what is wrong with which field", () => {
    const form = formFor(box, {});
    const wrong = readForm(form, { ...initialValues(form), size: "2.5", labels: "a", extra: "{" });
    expect(wrong).toEqual({
      ok: false,
      errors: {
        color: "is required",
        size: "must be a whole number",
        labels: "[0] must have at least 2 characters",
        extra: expect.stringContaining("must be JSON"),
      },
    });
    expect(readForm(form, { ...initialValues(form), color: "red", size: "11", extra: "{}" })).toMatchObject({ errors: { size: "must be at most 10", extra: 'needs "id"' } });
    expect(readForm(form, { ...initialValues(form), color: "red", size: "many" })).toMatchObject({ errors: { size: "must be a number" } });
  });

  it("do not take spaces for a number", () => {
    const form = formFor({ type: "object", required: ["size"], properties: { size: { type: "integer" }, weight: { type: "number" } } }, {});
    expect(readForm(form, { size: " ", weight: "" })).toEqual({ ok: false, errors: { size: "is required" } });
    expect(readForm(form, { size: " 7 ", weight: "  " })).toEqual({ ok: true, value: { size: 7 } });
  });

  it("take a text without characters where one is needed and nothing forbids it", () => {
    const properties: Record<string, Schema> = { note: { type: "string" }, name: { type: "string", minLength: 1 }, day: { type: "string", format: "date" }, code: { type: "string", pattern: "^a+$" }, other: { type: "string", title: "Other" } };
    const form = formFor({ type: "object", required: ["note", "name", "day", "code"], properties }, {});
    expect(form.fields.map(mayBeEmpty)).toEqual([true, false, false, true, false]);
    expect(readForm(form, initialValues(form))).toEqual({ ok: false, errors: { name: "is required", day: "is required", code: "must look like ^a+$" } });
    expect(readForm(form, { ...initialValues(form), name: "x", day: "2026-01-01", code: "a" })).toEqual({ ok: true, value: { note: "", name: "x", day: "2026-01-01", code: "a" } });
  });

  it("leave out a yes or no that nobody chose, unless it is needed or has a usual value", () => {
    const form = formFor({ type: "object", required: ["sure"], properties: { sure: { type: "boolean" }, gift: { type: "boolean" }, loud: { type: "boolean", default: false } } }, {});
    expect(form.fields.map((one) => one.kind)).toEqual(["boolean", "choice", "boolean"]);
    expect(readForm(form, initialValues(form))).toEqual({ ok: true, value: { sure: false, loud: false } });
    expect(readForm(form, { ...initialValues(form), gift: "false" })).toMatchObject({ value: { gift: false } });
    expect(readForm(form, { ...initialValues(form), gift: "true" })).toMatchObject({ value: { gift: true } });
  });

  it("take a single value as the whole result", () => {
    const form = formFor({ type: "integer" }, {});
    expect(form.whole).toBe(true);
    expect(readForm(form, { [WHOLE]: "7" })).toEqual({ ok: true, value: 7 });
  });
});

describe("forms without a schema", () => {
  it("have a text for each name in `fields`, in their order", () => {
    const form = formFor(undefined, { title: "Your delivery", fields: ["name", "color", "name"] });
    expect(form.fields.map((one) => [one.name, one.kind])).toEqual([
      ["name", "text"],
      ["color", "text"],
    ]);
    expect(readForm(form, { name: "Ada", color: "" })).toEqual({ ok: true, value: { name: "Ada", color: "" } });
  });

  it("take JSON, which is checked, where there are none", () => {
    for (const input of [{}, null, { fields: [] }, { fields: [1] }, { fields: "x" }]) {
      const form = formFor(undefined, input);
      expect(form.fields.map((one) => one.kind)).toEqual(["json"]);
      expect(readForm(form, { [WHOLE]: "{nonsense" })).toMatchObject({ ok: false });
      expect(readForm(form, { [WHOLE]: "" })).toEqual({ ok: false, errors: { [WHOLE]: "is required" } });
      expect(readForm(form, { [WHOLE]: '{"a":[1,null]}' })).toEqual({ ok: true, value: { a: [1, null] } });
    }
  });
});

describe("checks", () => {
  it("follow the schema", () => {
    const wrong = (schema: Schema, value: unknown) => check(schema, value, schema);
    expect(wrong({ type: ["string", "null"] }, null)).toBeUndefined();
    expect(wrong({ type: ["string", "null"] }, 1)).toBe("must be a text or null");
    expect(wrong({ pattern: "^a+$" }, "aab")).toBe("must look like ^a+$");
    expect(wrong({ pattern: "(" }, "anything")).toBeUndefined();
    expect(wrong({ multipleOf: 0.1 }, 0.3)).toBeUndefined();
    expect(wrong({ multipleOf: 2 }, 3)).toBe("must be a multiple of 2");
    expect(wrong({ exclusiveMinimum: 0 }, 0)).toBe("must be more than 0");
    expect(wrong({ maxLength: 1 }, "😀")).toBeUndefined();
    expect(wrong({ type: "object", properties: {}, additionalProperties: false }, { a: 1 })).toBe("a is not known");
    expect(wrong({ const: 3 }, 4)).toBe("must be 3");
    expect(wrong({ properties: { a: { properties: { b: { type: "string" } } } } }, { a: { b: 1 } })).toBe("a.b must be a text");
  });
});
