// A hook that makes a server refuse the scripts that hosted servers refuse.

package testredis

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Hosted is a hook that makes a server behave as hosted ones may: it fails a script that touches a key that is not
// in KEYS, and has forgotten each script when a client sends its digest.
type Hosted struct {
	// Literal refuses each script that does not pass the check of Alibaba Tair; see [NotLiteral].
	Literal bool

	// Except are patterns of Lua for keys that scripts may touch anyway.
	Except []string

	// Mute refuses PUBLISH in scripts. Silent takes it, and delivers no message.
	Mute, Silent bool
}

// Forgotten is the digest that the hook sends in place of others.
var Forgotten = strings.Repeat("0", 40)

// Attach adds the hook to a client.
func (h *Hosted) Attach(rdb *redis.Client) error {
	edit := func(cmds []redis.Cmder) {
		for _, cmd := range cmds {
			h.edit(cmd)
		}
	}
	rdb.AddHook(hook{before: edit, after: func([]redis.Cmder) {}})
	return nil
}

// guard is Lua code that comes before a script, on its first line. It replaces redis.call and redis.pcall, so the
// script fails even if it would ignore the error of pcall.
const guard = `local redis = (function(server) local declared = {} for _, key in ipairs(KEYS) do declared[key] = true end ` +
	`local all, none = {DEL = 1, EXISTS = 1, MGET = 1, UNLINK = 1}, {INFO = 1, PUBLISH = 1, SCAN = 1, SPUBLISH = 1, TIME = 1} ` +
	`local function checked(call) return function(name, ...) local args = {...} ` +
	`if silent and name == 'PUBLISH' then return 0 end ` +
	`if mute and name == 'PUBLISH' then return {err = 'ERR This Redis command is not allowed from script'} end ` +
	`for i = 1, none[name] and 0 or all[name] and #args or 1 do if not (declared[args[i]] or except(args[i])) then ` +
	`error('script tried accessing undeclared key, command ' .. name) end end return call(name, ...) end end ` +
	`return setmetatable({call = checked(server.call), pcall = checked(server.pcall)}, {__index = server}) end)(redis) `

// edit changes a command of a client.
func (h *Hosted) edit(cmd redis.Cmder) {
	args := cmd.Args()
	name, _ := args[0].(string)
	switch strings.ToLower(name) {
	case "evalsha":
		args[1] = Forgotten
	case "eval":
		source, ok := args[1].(string)
		if text, isPointer := args[1].(*string); isPointer {
			source, ok = *text, true
		}
		switch {
		case !ok || strings.HasPrefix(source, "#!"):
		case h.Literal && NotLiteral(source) != "":
			args[1] = "return redis.error_reply('ERR bad lua script for redis cluster, all the keys that the script uses should be passed using the KEYS array, and KEYS should not be in expression')"
		default:
			except := "false"
			for _, pattern := range h.Except {
				except += fmt.Sprintf(" or string.find(key, %q)", pattern)
			}
			args[1] = fmt.Sprintf("local mute, silent = %t, %t local function except(key) return %s end ", h.Mute, h.Silent, except) + guard + source
		}
	}
}

var (
	comments = regexp.MustCompile(`--.*`)
	calls    = regexp.MustCompile(`redis\.p?call\b`)
	alias    = regexp.MustCompile(`=\s*(redis|unpack)\b[^.(].*`)
	command  = regexp.MustCompile(`^redis\.p?call\('([A-Z]+)'((?:, KEYS\[\d\])*)([,)])`)
)

// NotLiteral returns the first line of a script that the check of Alibaba Tair refuses, by its documentation and its
// users' reports, or "": a call whose command is no literal or whose key is not KEYS[n], a call in a call, unpack,
// another name for it, for redis or for redis.call, or PUBLISH.
func NotLiteral(source string) string {
	known, ok := verdicts.Load(source)
	if !ok {
		known, _ = verdicts.LoadOrStore(source, notLiteral(source))
	}
	return known.(string)
}

var verdicts sync.Map // of NotLiteral, because its work would take longer than a bulk release has

func notLiteral(source string) string {
	source = strings.ReplaceAll(comments.ReplaceAllString(source, ""), "'('", "''")
	if strings.Contains(source, "unpack(") {
		return "unpack("
	}
	if found := alias.FindString(source); found != "" {
		return found
	}
	for _, at := range calls.FindAllStringIndex(source, -1) {
		text := source[at[0]:]
		end, depth := 0, 0
		for i, r := range text {
			switch r {
			case '(':
				depth++
			case ')':
				depth--
			}
			if r == ')' && depth == 0 {
				end = i
				break
			}
		}
		found := command.FindStringSubmatch(text)
		if literal := found != nil && hasKeys(found[1], found[2], found[3] == ")"); !literal || strings.Contains(text[1:end], "redis.") {
			line, _, _ := strings.Cut(text, "\n")
			return line
		}
	}
	return ""
}

// hasKeys reports whether the literal keys of a command are all of its keys. whole reports that the command has no other arguments.
func hasKeys(name, keys string, whole bool) bool {
	switch name {
	case "TIME", "INFO", "SCAN":
		return true
	case "DEL", "EXISTS", "MGET", "UNLINK":
		return keys != "" && whole
	}
	return keys != ""
}
