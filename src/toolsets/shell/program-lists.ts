const list = (text: string): string[] => text.trim().split(/\s+/);

/** Programs that only read their input and print, with any options. */
export const readingPrograms: ReadonlySet<string> = new Set(
  list(`
  cat tac nl head tail wc cut paste tr rev fold fmt expand unexpand column comm join basename dirname realpath readlink
  pwd cd pushd popd dirs echo printf true false : seq sleep date cal uname whoami id groups arch nproc uptime free df du
  ls dir vdir tree stat file md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base32 base64 basenc
  od hexdump hd xxd strings cmp diff diff3 look tsort factor expr numfmt test [ grep egrep fgrep zcat rg ag fd
  fdfind jq yq sort uniq shuf find sed gsed awk gawk mawk nawk which type hash wait exit return break continue shift
  tokei jobs command read env xargs timeout time nice
`),
);

/** Programs whose first operand is an expression, not a file. */
export const expressionPrograms: ReadonlySet<string> = new Set(
  list("grep egrep fgrep zgrep rg ag sed gsed awk gawk mawk nawk jq yq"),
);

/** Shells whose scripts can be inspected. */
export const shells: ReadonlySet<string> = new Set(list("bash sh dash ash ksh mksh rbash"));

/** Programs whose code may follow an option such as `-c` or `-m`. */
export const interpreters: ReadonlySet<string> = new Set(
  list(
    "python python2 python3 pypy pypy3 perl ruby node nodejs php lua luajit Rscript R deno bun tclsh guile zsh fish csh tcsh",
  ),
);

/** Programs that take a separator as an option's value. */
export const separatingPrograms: ReadonlySet<string> = new Set(list("cut sort paste column xargs awk gawk mawk nawk"));

/** Programs whose arguments never name files. */
export const pathlessPrograms: ReadonlySet<string> = new Set(
  list("echo printf true false : seq sleep cal basename dirname tr expr exit return break continue shift set type"),
);

/**
 * Programs that can run other programs or code, or exist to do so: interpreters, editors and pagers, package managers,
 * debuggers, containers, network clients. Most are listed by GTFOBins.
 */
export const codeRunners: ReadonlySet<string> = new Set(
  list(`
  aa-exec ab acr agetty alpine ansible ansible-playbook ansible-test aoss apache2 apache2ctl apk apport-cli apt
  apt-get aptitude arch-nspawn aria2c arj arp as asterisk at autoconf autoheader autoreconf aws bashbug bat batcat
  batch bbot bc bconsole bee bind borg bpftrace brew bridge bun bundler bunx busctl byebug c89 c99 cabal cancel capsh
  ccache cdist certbot check_by_ssh check_log check_ssl_cert chromium clamscan clisp clj cmake cobc code codex compgen
  complete conda coproc corepack cowsay cowthink cpan cpio cpulimit crash crontab csh csvtool ctr cupsfilter dc
  debugfs deno dhclient dialog dig distcc dmesg dmsetup dnf dnsmasq docker-compose dosbox dpkg dpkg-deb
  dpkg-reconfigure dstat dvips easy_install easyrsa eb ed elixir elvish emacs emacsclient emerge enable enscript eopkg
  eqn erl ex exiftool expect facter fail2ban-client fastfetch fc ffmpeg finger firefox firejail fish forge fping ftp
  fzf gcloud gcore gdb genie genisoimage getent ghc ghci gimp ginsh gnuplot grc groff groovy gtester guile hashcat
  helm hg highlight history host hping3 htop http httpie hugo iftop ip iptables iptables-save irb ispell java javac
  jekyll jjs joe journalctl jrunscript jshell jtag julia knife ksshell ksu latex latexmk ld.so ldconfig less lftp
  links loginctl logname logrotate logsave lp lua luac lualatex luatex lwp-download lwp-request lxc lxd lynx m4 mail
  mailx make-kpkg man mc minicom mkinitrd more mosh mosh-server mosquitto most mount msfconsole msgattrib msgfilter
  mtr multitime mutt mypy mysql mysqldump nano nasm nc ncat ncdu ncftp needrestart neofetch netcat nft nginx nix nm
  nmap node nodejs npx nroff nsenter nslookup ntpdate numactl nvim octave open opencode openssl openvpn openvt opkg
  osascript pacman pandoc parallel passwd patch pdb pdflatex pdftex perf perl perlbug pexec pg php pic pico pidstat
  ping pipenv pipx pkexec pkg plymouth pnpx podman poetry posh powershell prlimit procmail proxychains pry psftp psql
  ptx puppet pwsh pygmentize pypy pypy3 python python2 python3 qpdf R rake ranger rbash rc redcarpet redis-cli
  redis-server rescue restic rlogin rlwrap rpm rpmdb rpmquery rpmverify Rscript rscript rsh rsyslogd rtorrent ruby
  run-mailcap run-parts runscript runuser rustc rustdoc rustup rview rvim s3cmd sash scala scanmem scp screen script
  scrot service setarch setcap setfacl setlock setpriv sftp sg slsh smbclient snap socat socket soelim softlimit
  sqlmap ss ssh ssh-add ssh-agent ssh-copy-id ssh-keygen ssh-keyscan sshfs sshpass sshuttle stap start
  start-stop-daemon su swift sysctl systemctl systemd-resolve systemd-run tailscale task tasksh tbl tclsh tcpdump tcsh
  tdbtool telnet tex tftp tic timedatectl tmate tmux top torify torsocks tox troff ts-node tshark tsx ul umount
  unshare update-alternatives urlget uv uvx vagrant valgrind varnishncsa vi view vigr vim vimdiff vipw virsh visudo
  volatility w3m wall wasmtime wg-quick wget whiptail whois wine wireshark wish xdg-open xdg-user-dir xdotool xelatex
  xetex xmodmap xpad yash yelp yt-dlp yum zathura zic zless zmore zsh zsoelim zypper
`),
);

export interface Subcommands {
  /** Subcommands that do only what their name says. */
  allowed: RegExp;
  /** Subcommands that do so only without operands. */
  alone?: RegExp;
  /** Options that load or start something else. */
  risky: RegExp;
}

const script = "test|t|tst|run|run-script|start|stop|ci|ls|list|outdated|why|explain|root|bin|audit|view";

/** Programs with subcommands, some of which can run anything. */
export const subcommands: ReadonlyMap<string, Subcommands> = new Map(
  Object.entries({
    npm: {
      allowed: new RegExp(`^(${script})$`),
      alone: /^(install|i)$/,
      risky:
        /^(--(script-shell|prefix|node-options|userconfig|globalconfig|init-module|shell|git|call|ignore-scripts=false|workspace)(=|$)|-[Ccw]$)/,
    },
    pnpm: {
      allowed: new RegExp(`^(${script}|licenses)$`),
      alone: /^(install|i)$/,
      risky: /^(--(script-shell|dir|config|shell-mode|shell-emulator|filter|node-options|prefix)|-[CcF]$)/,
    },
    yarn: {
      allowed: new RegExp(`^(${script}|info|workspaces)$`),
      alone: /^install$/,
      risky: /^(--(cwd|use-yarnrc|script-shell|preload|require)|-r$)/,
    },
    cargo: {
      allowed:
        /^(build|b|check|c|test|t|bench|clippy|fmt|doc|d|tree|metadata|pkgid|clean|fetch|add|remove|update|init|new|search|info|fix|generate-lockfile|locate-project)$/,
      risky: /^(--(config|manifest-path|target-dir|open|git|path|registry|index|vcs|template)(=|$)|-[ZC]$|-Z.)/,
    },
    pip: {
      allowed: /^(list|show|freeze|check|inspect|index)$/,
      risky: /^(--(python|path|log|require-virtualenv|cert|proxy)(=|$))/,
    },
    pip3: {
      allowed: /^(list|show|freeze|check|inspect|index)$/,
      risky: /^(--(python|path|log|require-virtualenv|cert|proxy)(=|$))/,
    },
    docker: {
      allowed: /^(ps|images|version|info|inspect|logs|top|stats|diff|port)$/,
      risky: /^(-H|--host|--config|--context)/,
    },
    kubectl: {
      allowed: /^(get|describe|logs|version|explain|api-resources)$/,
      risky: /^--(kubeconfig|context|server)/,
    },
    terraform: { allowed: /^(validate|version|fmt|graph|providers)$/, risky: /^-chdir/ },
    bundle: { allowed: /^(list|show|check|outdated|info)$/, risky: /^--gemfile/ },
    gem: { allowed: /^(list|search|info|environment|which)$/, risky: /^--config-file/ },
    composer: { allowed: /^(show|validate|outdated|licenses|why|depends)$/, risky: /^(-d|--working-dir)/ },
    dotnet: {
      allowed: /^(build|test|restore|list|clean|format)$/,
      risky: /^(-p:|\/p:|--property|-s|--settings|--diag|--test-adapter-path|@)/,
    },
    mvn: {
      allowed: /^(clean|validate|compile|test|package|verify|install|-q|-B|-DskipTests)$/,
      risky: /^(-D(?!skipTests|test=)|-f|-s|-gs|-e[xX]ec|exec:|-P|--)/,
    },
    gradle: {
      allowed: /^(build|test|check|clean|tasks|dependencies|assemble)$/,
      risky: /^(-I|--init-script|-P|-D|-b|-c|-p|--project-dir|--include-build|-g)/,
    },
    go: {
      allowed: /^(build|test|vet|fmt|list|doc|version|env|mod)$/,
      risky:
        /^(--?(exec|toolexec|vettool|overlay|modfile|cpuprofile|ldflags|gcflags|asmflags|gccgoflags|compiler|buildmode|C|w)(=|$)|edit$|init$)/,
    },
  }),
);

/** The syntax of a program that starts another one: its own words, before those of the other program. */
export interface Wrapper {
  /** Short and long options whose value is a separate word. */
  valued: RegExp;
  /** Its other options. */
  flags: RegExp;
  /** The number of words before the program, not counting options. */
  operands: number;
}

const none = /^$/;
const wrapper = (valued: RegExp, flags: RegExp = none, operands = 0): Wrapper => ({ valued, flags, operands });

/** Programs that start the program named in their arguments, which is judged in turn. */
export const wrappers: ReadonlyMap<string, Wrapper> = new Map<string, Wrapper>([
  ["env", wrapper(/^(u|C|a|unset|chdir|argv0)$/, /^(i|0|v|ignore-environment|null|debug)$/)],
  ["command", wrapper(none, /^[vVp]$/)],
  ["builtin", wrapper(none)],
  ["exec", wrapper(/^a$/, /^[cl]$/)],
  ["nohup", wrapper(none)],
  ["nice", wrapper(/^(n|adjustment)$/, /^\d$/)],
  ["time", wrapper(/^(f|format)$/, /^(p|v|q|a|portability|verbose|quiet)$/)],
  ["timeout", wrapper(/^(k|s|kill-after|signal)$/, /^(v|foreground|preserve-status|verbose)$/, 1)],
  [
    "xargs",
    wrapper(
      /^([adEILnPs]|arg-file|delimiter|max-(args|procs|chars)|process-slot-var)$/,
      /^([0rtxpoil]|null|no-run-if-empty|verbose|exit|replace|max-lines|eof)$/,
    ),
  ],
  [
    "sudo",
    wrapper(/^([CDghpRrTtUu]|user|group|host|prompt|chdir|chroot|role|type|other-user|close-from)$/, /^[nHSkE]$/),
  ],
  ["doas", wrapper(/^[Cu]$/, /^[nLs]$/)],
  ["setsid", wrapper(none, /^[cfw]$/)],
  ["stdbuf", wrapper(/^([ioe]|input|output|error)$/)],
  ["busybox", wrapper(none)],
  ["watch", wrapper(/^(n|interval)$/, /^[bcdegtx]$/)],
  ["ionice", wrapper(/^(c|n|p|class|classdata|pid)$/, /^t$/)],
  ["chroot", wrapper(none, none, 1)],
  ["flock", wrapper(/^([wE]|timeout|wait|conflict-exit-code)$/, /^[sxneoF]$/, 1)],
  ["strace", wrapper(/^[abeEIOpPsSuUX]$/, /^[fqtvyrCcwki]$/)],
  ["unbuffer", wrapper(none)],
  ["taskset", wrapper(none, /^c$/, 1)],
  ["chrt", wrapper(none, /^[bfior]$/, 1)],
  ["choom", wrapper(/^(n|p|adjust|pid)$/)],
  ["ltrace", wrapper(/^[aelFnsSxw]$/, /^[cfiLrtT]$/)],
]);
