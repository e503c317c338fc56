// Completions for shells, made from the flags.

package main

import (
	"flag"
	"fmt"
	"runtime/debug"
	"strings"
)

var completionCommand = command{
	name: "completion", args: "bash|zsh|fish", minArgs: 1, maxArgs: 1,
	summary: "print a completion script for a shell",
	about: `
Prints a script that completes commands and flags:

    source <(leasewheel completion bash)
    leasewheel completion zsh >"${fpath[1]}/_leasewheel"
    leasewheel completion fish >~/.config/fish/completions/leasewheel.fish
`,
	setup: func(*flag.FlagSet) func([]string, streams) int {
		return func(args []string, std streams) int {
			script, ok := map[string]func() string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[args[0]]
			if !ok {
				return fail(std, usageError{fmt.Sprintf("completion: no script for %q; there is bash, zsh and fish", args[0])})
			}
			fmt.Fprint(std.out, script())
			return 0
		}
	},
}

// takesCommand reports whether the arguments are a command line of their own.
func (c command) takesCommand() bool { return c.maxArgs == anyArgs }

// flagNames returns the flags as they are typed.
func (c command) flagNames() []string {
	var names []string
	for _, o := range c.options() {
		if o.short != "" {
			names = append(names, "-"+o.short)
		}
		names = append(names, "-"+o.long)
	}
	return names
}

// commandNames returns the names of all commands and help.
func commandNames() []string {
	names := []string{"help"}
	for _, c := range commands {
		names = append(names, c.name)
	}
	return names
}

// bashScript returns the script for bash. After the flags of run and elect it completes programs and
// files.
func bashScript() string {
	var b strings.Builder
	b.WriteString("# bash completion for leasewheel\n_leasewheel() {\n\tlocal cur=${COMP_WORDS[COMP_CWORD]} words\n\tCOMPREPLY=()\n")
	fmt.Fprintf(&b, "\tif ((COMP_CWORD == 1)); then\n\t\tCOMPREPLY=($(compgen -W '%s' -- \"$cur\"))\n\t\treturn\n\tfi\n", strings.Join(commandNames(), " "))
	b.WriteString("\tcase ${COMP_WORDS[1]} in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "\t%s) words='%s' ;;\n", c.name, strings.Join(c.flagNames(), " "))
	}
	fmt.Fprintf(&b, "\thelp) words='%s' ;;\n\tesac\n", strings.Join(commandNames()[1:], " "))
	b.WriteString("\tif [[ ${COMP_WORDS[1]} == completion ]]; then words='bash zsh fish'; fi\n")
	b.WriteString("\tif [[ $cur == -* || ${COMP_WORDS[1]} == help || ${COMP_WORDS[1]} == completion ]]; then\n\t\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n")
	b.WriteString("\telse\n\t\tCOMPREPLY=($(compgen -c -f -- \"$cur\"))\n\tfi\n}\ncomplete -F _leasewheel leasewheel\n")
	return b.String()
}

// zshScript returns the script for zsh.
func zshScript() string {
	var b strings.Builder
	b.WriteString("#compdef leasewheel\n_leasewheel() {\n  local -a list\n  if ((CURRENT == 2)); then\n    list=(\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "      '%s:%s'\n", c.name, quoteSingle(c.summary))
	}
	b.WriteString("      'help:show the help'\n    )\n    _describe command list\n    return\n  fi\n  case $words[2] in\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "  %s)\n    _arguments -S", c.name)
		for _, o := range c.options() {
			b.WriteString(" \\\n      " + zshOption(o))
		}
		switch {
		case c.takesCommand():
			b.WriteString(" \\\n      '*::command:_normal'")
		case c.name == "completion":
			b.WriteString(" \\\n      '2:shell:(bash zsh fish)'")
		}
		b.WriteString(" ;;\n")
	}
	b.WriteString("  esac\n}\n_leasewheel \"$@\"\n")
	return b.String()
}

// zshOption returns the specification of a flag for _arguments.
func zshOption(o option) string {
	escape := strings.NewReplacer("[", `\[`, "]", `\]`, ":", `\:`, "'", `'\''`)
	text := "[" + escape.Replace(firstSentence(o.usage)) + "]"
	if o.value != "" {
		text += ":" + strings.ToLower(o.value) + ":"
	}
	if o.short == "" {
		return "'-" + o.long + text + "'"
	}
	return fmt.Sprintf("'(-%[1]s -%[2]s)'{-%[1]s,-%[2]s}'%[3]s'", o.short, o.long, text)
}

// fishScript returns the script for fish.
func fishScript() string {
	var b strings.Builder
	b.WriteString("# fish completion for leasewheel\ncomplete -c leasewheel -n __fish_use_subcommand -f -a help -d 'show the help'\n")
	for _, c := range commands {
		fmt.Fprintf(&b, "complete -c leasewheel -n __fish_use_subcommand -f -a %s -d '%s'\n", c.name, fishQuote(c.summary))
		for _, o := range c.options() {
			fmt.Fprintf(&b, "complete -c leasewheel -n '__fish_seen_subcommand_from %s' -o %s", c.name, o.long)
			if o.short != "" {
				fmt.Fprintf(&b, " -s %s", o.short)
			}
			if o.value != "" {
				b.WriteString(" -x")
			}
			fmt.Fprintf(&b, " -d '%s'\n", fishQuote(firstSentence(o.usage)))
		}
	}
	b.WriteString("complete -c leasewheel -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n")
	return b.String()
}

// firstSentence returns the text up to its first semicolon or full stop.
func firstSentence(text string) string {
	for _, end := range []string{"; ", ". "} {
		text, _, _ = strings.Cut(text, end)
	}
	return text
}

func quoteSingle(text string) string { return strings.ReplaceAll(text, "'", `'\''`) }

func fishQuote(text string) string {
	return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text)
}

var versionCommand = command{
	name:    "version",
	summary: "print the version",
	about:   "Prints the version of the module that the program was built from, and of Go.",
	setup: func(*flag.FlagSet) func([]string, streams) int {
		return func(_ []string, std streams) int {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				return fail(std, usageError{"version: the program has no build information"})
			}
			fmt.Fprintln(std.out, "leasewheel", info.Main.Version, info.GoVersion)
			return 0
		}
	},
}
