// The policy of the page forbids making code from text, which zod would otherwise try, and report. Imported first.
import { config } from "zod/v4/core";

config({ jitless: true });
