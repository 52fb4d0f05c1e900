import { afterEach, describe, expect, it, vi } from "vitest";

import { age, clock, duration, partLeft, timeLeft } from "../src/lib/time";

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

describe("deadlines", () => {
  it("counts down in whole seconds, and ends", () => {
    expect(timeLeft(10_001, 10_000)).toBe("0:01");
    expect(timeLeft(5 * MINUTE, 1)).toBe("5:00");
    expect(timeLeft(HOUR + 2 * MINUTE + 3 * SECOND, 0)).toBe("1:02:03");
    expect(timeLeft(3 * 24 * HOUR + 4 * HOUR, 0)).toBe("3d 4h");
    expect(timeLeft(10_000, 10_000)).toBeNull();
    expect(timeLeft(9000, 10_000)).toBeNull();
  });

  it("knows which part is left", () => {
    expect(partLeft(0, 100, 25)).toBe(0.75);
    expect(partLeft(0, 100, 200)).toBe(0);
    expect(partLeft(0, 100, -5)).toBe(1);
    expect(partLeft(100, 100, 50)).toBe(0);
  });
});

describe("durations and ages", () => {
  it("are short", () => {
    expect([0, 12.4, 1234, 59_400, 63_000, 2 * HOUR + 5 * MINUTE].map(duration)).toEqual(["<1 ms", "12 ms", "1.2 s", "59 s", "1m 03s", "2h 05m"]);
    const now = 30 * 24 * HOUR;
    expect([now - 5, now - 3 * MINUTE, now - 5 * HOUR, now - 49 * HOUR, 12 * HOUR].map((at) => age(at, now))).toEqual(["now", "3m", "5h", "2d", "1970-01-01"]);
  });
});

describe("dates", () => {
  afterEach(() => vi.unstubAllEnvs());

  it("are those of the place, as the hours are", () => {
    const at = Date.UTC(2026, 2, 1, 2, 30);
    vi.stubEnv("TZ", "America/New_York");
    expect([clock(at, at), clock(at, at + 30 * 24 * HOUR), age(at, at + 30 * 24 * HOUR)]).toEqual(["21:30", "2026-02-28 21:30", "2026-02-28"]);
    vi.stubEnv("TZ", "Asia/Tokyo");
    expect(clock(Date.UTC(2026, 1, 28, 16), at + 30 * 24 * HOUR)).toBe("2026-03-01 01:00");
  });
});
