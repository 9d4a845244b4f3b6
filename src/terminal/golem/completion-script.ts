import { UserError } from "#domain/errors.ts";
import { commandHelp } from "./help.ts";

const commands = Object.keys(commandHelp).join(" ");

// Each line of `golem workers` begins with the name of a worker.
const listWorkers = "golem workers --no-color 2>/dev/null | cut -d ' ' -f 1";

const scripts: Record<string, string> = {
  bash: `_golem() {
  local current=\${COMP_WORDS[COMP_CWORD]}
  case \${COMP_CWORD}:\${COMP_WORDS[1]} in
    1:*) COMPREPLY=($(compgen -W "${commands}" -- "$current")) ;;
    2:run) COMPREPLY=($(compgen -W "$(${listWorkers})" -- "$current")) ;;
    2:help) COMPREPLY=($(compgen -W "${commands}" -- "$current")) ;;
    2:completion) COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")) ;;
    *) COMPREPLY=($(compgen -f -- "$current")) ;;
  esac
}
complete -F _golem golem
`,
  zsh: `_golem() {
  case $CURRENT:$words[2] in
    2:*) compadd ${commands} ;;
    3:run) compadd \${(f)"$(${listWorkers})"} ;;
    3:help) compadd ${commands} ;;
    3:completion) compadd bash zsh fish ;;
    *) _files ;;
  esac
}
compdef _golem golem
`,
  fish: `complete -c golem -n __fish_use_subcommand -f -a "${commands}"
complete -c golem -n "__fish_seen_subcommand_from run" -f -a "(${listWorkers})"
complete -c golem -n "__fish_seen_subcommand_from help" -f -a "${commands}"
complete -c golem -n "__fish_seen_subcommand_from completion" -f -a "bash zsh fish"
`,
};

/** Returns the completion script of a shell. Throws a UserError for another shell. */
export function completionScript(shell: string | undefined): string {
  const script = shell !== undefined && Object.hasOwn(scripts, shell) ? scripts[shell] : undefined;
  if (script === undefined) throw new UserError("Name a shell: golem completion bash, zsh or fish.");
  return script;
}
