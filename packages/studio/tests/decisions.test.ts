import { describe, expect, it } from "vitest";

import { decisionFrom } from "../src/api/decisions";

describe("decisions", () => {
  it("come from answers", () => {
    expect(decisionFrom({ approvalId: "a", approved: true, decidedBy: "bob", at: 5 })).toEqual({ kind: "approved", reason: undefined, by: "bob", at: 5 });
    expect(decisionFrom({ approvalId: "a", approved: false, reason: "no", at: 5 })).toEqual({ kind: "denied", reason: "no", by: undefined, at: 5 });
    expect(decisionFrom({ decidedBy: "bob", at: 5, deadline: 9 })).toEqual({ kind: "answered", reason: undefined, by: "bob", at: 5 });
  });

  it("are nobody's when the deadline has passed", () => {
    expect(decisionFrom({ approvalId: "a", decidedBy: "x", at: 5 })).toEqual({ kind: "expired", at: 5 });
    expect(decisionFrom({ decidedBy: "x", at: 9, deadline: 9 })).toEqual({ kind: "expired", at: 9 });
  });
});
