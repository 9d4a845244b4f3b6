import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { showHidden } from "#text/hidden-characters.ts";
import { type Html, trusted } from "./html.ts";

const languages = {
  ...{ bash, c, cpp, csharp, css, dockerfile, go, ini, java, javascript, json, kotlin, markdown, php, python, ruby },
  ...{ rust, sql, swift, typescript, xml, yaml },
};
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

/** Characters. Longer code is shown without colors. */
const maxLength = 100_000;

/** Colors lines of code by the language of their file. Returns undefined for an unknown language. */
export function highlightLines(lines: readonly string[], path: string): Html[] | undefined {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  const language = name === "dockerfile" ? name : (/\.(\w+)$/.exec(name)?.[1] ?? "");
  const code = showHidden(lines.join("\n"));
  if (!hljs.getLanguage(language) || code.length > maxLength) return undefined;

  const open: string[] = [];
  const colored = hljs
    .highlight(code, { language, ignoreIllegals: true })
    .value.split("\n")
    .map((line) => {
      const start = open.join("");
      // Close a token that spans lines at the end of each line, and open it again on the next.
      for (const [tag] of line.matchAll(/<span class="[^"]*">|<\/span>/g)) {
        if (tag === "</span>") open.pop();
        else open.push(tag);
      }
      return trusted(`${start}${line}${"</span>".repeat(open.length)}`);
    });
  return colored.length === lines.length ? colored : undefined;
}
