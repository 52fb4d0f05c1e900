import "./lib/no-eval";

import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { createRoot } from "react-dom/client";

import { queries } from "./api/queries";
import { watchVersion } from "./api/version";
import { applyTheme } from "./lib/theme";
import { router } from "./router";
import "./styles.css";

applyTheme();
if (import.meta.env.PROD) watchVersion(import.meta.url);
const place = document.getElementById("root");
if (place) {
  createRoot(place).render(
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>,
  );
}
