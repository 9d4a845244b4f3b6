import { type Command, defineCommand } from "just-bash";

const hints: Record<string, string> = {
  npm: "Call run_tests, install_package or format_code.",
  npx: "Call run_tests or format_code.",
  pnpm: "Call run_tests or install_package.",
  yarn: "Call run_tests or install_package.",
  node: "Call run_tests, or run_code with language bash, which has node where the OS sandbox stands.",
  python: "Call run_code with language python.",
  python3: "Call run_code with language python.",
  pip: "Call install_package.",
  pip3: "Call install_package.",
  pytest: "Call run_tests.",
  go: "Call run_tests.",
  cargo: "Call run_tests.",
  make: "Call run_code with language bash.",
  patch: "Call the patch or edit tool.",
  curl: "Call web_fetch.",
  wget: "Call web_fetch.",
  docker: "There are no containers here.",
  sudo: "There is no other user here: run the command itself.",
};

/** Programs people expect of a shell and that this one cannot have: each says where its work is done. */
export function unavailableCommands(): Command[] {
  return Object.entries(hints).map(([name, hint]) =>
    defineCommand(name, async () => ({
      stdout: "",
      stderr: `${name}: not in the in-memory shell. ${hint}\n`,
      exitCode: 127,
    })),
  );
}
