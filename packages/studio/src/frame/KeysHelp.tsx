import { Key, MOD } from "../ui/Keys";
import { Modal } from "../ui/Modal";
import { show } from "./ui-state";

const groups: [string, [string[], string][]][] = [
  ["Anywhere", [[[MOD, "K"], "Find sessions, agents, commands"], [["?"], "Show the keys"], [["/"], "Write a message"]]],
  ["Conversation", [[["Enter"], "Send"], [["Shift", "Enter"], "Break the line"], [["Esc"], "Stop the run"]]],
  ["Inbox", [[["j", "k"], "Next, previous"], [["a"], "Approve"], [["d"], "Deny"], [["x"], "Select, to deny several"], [["Enter"], "Open the session"]]],
];

export function KeysHelp({ open }: { open: boolean }) {
  return (
    <Modal open={open} onOpenChange={(is) => show(is ? "keys" : null)} title="Keys" data-testid="keys-help">
      <div className="space-y-4 px-5 pt-2 pb-5">
        {groups.map(([name, keys]) => (
          <section key={name}>
            <h3 className="pb-1 text-xs font-medium text-quiet">{name}</h3>
            <dl>
              {keys.map(([all, what]) => (
                <div key={what} className="flex items-center justify-between gap-4 py-1">
                  <dt>{what}</dt>
                  <dd className="flex gap-1">
                    {all.map((one) => (
                      <Key key={one}>{one}</Key>
                    ))}
                  </dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
    </Modal>
  );
}
