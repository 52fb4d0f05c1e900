import { JsonView } from "../ui/JsonView";
import { Visible } from "../ui/Visible";

/** The arguments of a call as a table, one row for each. */
export function Arguments({ input }: { input: unknown }) {
  const isRecord = typeof input === "object" && input !== null && !Array.isArray(input);
  const rows = isRecord ? Object.entries(input) : [];
  if (!rows.length) return isRecord ? <p className="text-sm text-quiet">Without arguments.</p> : <JsonView value={input} label="arguments" />;
  return (
    <table className="w-full table-fixed max-[560px]:block border-collapse text-left text-sm" data-testid="arguments">
      <tbody className="max-[560px]:block">
        {rows.map(([name, value]) => (
          <tr key={name} className="border-t border-line first:border-t-0 max-[560px]:block max-[560px]:py-1">
            <th scope="row" className="w-36 py-1.5 pr-3 align-top font-normal break-words text-quiet max-[560px]:block max-[560px]:w-auto max-[560px]:py-0.5">
              <Visible text={name} />
            </th>
            <td className="py-1.5 align-top max-[560px]:block max-[560px]:py-0.5">
              <JsonView value={value} label={name} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
