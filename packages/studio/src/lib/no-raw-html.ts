/** Stands in for `rehype-raw`, which would parse HTML in Markdown: here it is shown as the text that it is. */
export default function noRawHtml() {
  return undefined;
}
