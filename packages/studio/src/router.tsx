import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";

import { Home } from "./conversation/Home";
import { SessionView } from "./conversation/SessionView";
import { Shell } from "./frame/Shell";
import { Inbox } from "./inbox/Inbox";

const root = createRootRoute({ component: Shell, notFoundComponent: () => <Home agent={undefined} /> });

const home = createRoute({
  getParentRoute: () => root,
  path: "/",
  validateSearch: (search: Record<string, unknown>): { agent?: string } => (typeof search.agent === "string" ? { agent: search.agent } : {}),
  component: function HomeRoute() {
    return <Home agent={home.useSearch().agent} />;
  },
});

const session = createRoute({
  getParentRoute: () => root,
  path: "/s/$session",
  component: function SessionRoute() {
    const { session: id } = session.useParams();
    return <SessionView key={id} id={id} />;
  },
});

const inbox = createRoute({ getParentRoute: () => root, path: "/inbox", component: Inbox });

export const router = createRouter({ routeTree: root.addChildren([home, session, inbox]), scrollRestoration: false });

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
