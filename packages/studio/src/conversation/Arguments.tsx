import { JsonView } from "../ui/JsonView";
import { Visible } from "../ui/Visible";

/** The arguments of a call as a table, one row for each. */
export function Arguments({ input }: { input: unknown }) {
  const isRecord = typeof input === "object" && input !== null && !Array.isArray(input);
  const rows = isRecord ? Object.entries(input) : [];
  if (!rows.length) return isRecord ? <p className="text-sm text-quiet">Without arguments.</p> : <JsonView value={input} label="arguments" />;
  return (
    <table className="w-full table-fixed border-collapse text-left text-sm" data-testid="arguments">
      <tbody>
        {rows.map(([name, value]) => (
          <tr key={name} className="border-t border-line first:border-t-0">
            <th scope="row" className="w-[30%] max-w-40 py-1.5 pr-3 align-top font-normal break-words text-quiet">
              <Visible text={name} />
            </th>
            <td className="py-1.5 align-top">
              <JsonView value={value} label={name} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
