// Errors of a Client: what the server reports, what to do about it, and no secrets.

package redisconn

import (
	"cmp"
	"context"
	"errors"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

var (
	// ErrClosed is the error of every call that is running when the Client is closed,
	// and of every later call.
	ErrClosed = redisnode.ErrClosed

	// ErrZeroStore is the error of a call of a nil Client, which a store has that New has not made.
	ErrZeroStore = errors.New("the Store was not made by New")
)

var (
	// errNilReply is the error of a nil reply, which no script may return. It does not match
	// redis.Nil, which means a missing key.
	errNilReply = errors.New("unexpected nil reply")

	errNoMaster = errors.New("no Sentinel knows a master of that name; check MasterName in the redis.FailoverOptions, or master_name in the URL")
)

// textError is an error with a longer text.
type textError struct {
	text string
	errs []error
}

// Error implements error.
func (e textError) Error() string { return e.text }

// Unwrap returns the error itself, and what else it matches.
func (e textError) Unwrap() []error { return e.errs }

// replyError is an error reply without secrets.
type replyError string

// Error implements error.
func (e replyError) Error() string { return string(e) }

// RedisError makes it a redis.Error.
func (replyError) RedisError() {}

// hiddenError matches what an error matches that it does not show. Unwrap would show the secrets.
type hiddenError struct {
	text string
	is   func(target error) bool
}

// Error implements error.
func (e hiddenError) Error() string { return e.text }

// Is reports whether the hidden error matches target.
func (e hiddenError) Is(target error) bool { return e.is(target) }

// secrets holds the texts that no error may show.
type secrets struct {
	password string
	user     string
}

// clean returns an error of go-redis without the secrets and the owners. Some error replies
// repeat the arguments of the command, and errors end up in logs. The password is removed as a whole word only:
// otherwise the gaps in common words would reveal a weak one.
func (s *secrets) clean(err error, owners ...string) error {
	text := err.Error()
	shown, _, _ := strings.Cut(text, ", with args beginning with:")
	if !isRefusedLogin(shown) { // its text has no arguments, but perhaps the word password
		shown = hideWord(shown, s.password)
	}
	for _, owner := range owners {
		if owner != "" {
			shown = strings.ReplaceAll(shown, owner, "(secret)")
		}
	}
	if s.user != "" {
		shown = strings.ReplaceAll(shown, " "+s.user+" ", " (secret) ")
	}
	switch {
	case shown == text:
		return err
	case errors.As(err, new(redis.Error)):
		return replyError(shown)
	}
	return hiddenError{shown, func(target error) bool { return errors.Is(err, target) }}
}

// hideWord replaces a word where it is not a part of a longer one.
func hideWord(text, word string) string {
	if word == "" {
		return text
	}
	isWord := func(r rune, size int) bool { return size > 0 && (unicode.IsLetter(r) || unicode.IsDigit(r)) }
	begins, ends := isWord(utf8.DecodeRuneInString(word)), isWord(utf8.DecodeLastRuneInString(word))
	var shown strings.Builder
	for from := 0; ; {
		i := strings.Index(text[from:], word)
		if i < 0 {
			return shown.String() + text[from:]
		}
		at, end := from+i, from+i+len(word)
		if begins && isWord(utf8.DecodeLastRuneInString(text[:at])) || ends && isWord(utf8.DecodeRuneInString(text[end:])) {
			_, size := utf8.DecodeRuneInString(text[at:])
			shown.WriteString(text[from : at+size])
			from = at + size
			continue
		}
		shown.WriteString(text[from:at] + "(secret)")
		from = end
	}
}

// explain returns an error of go-redis without secrets and owners, and with what to do about it if that is known. sc is
// the script that has failed, or nil.
func (c *Client) explain(err error, sc *redisnode.Script, owners ...string) error {
	var reply redis.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, redis.Nil) && strings.Contains(err.Error(), "sentinels"):
		return errNoMaster
	case errors.Is(err, redis.Nil):
		return errNilReply
	case !errors.As(err, &reply):
		return c.explainClosed(c.secrets.clean(err, owners...))
	case redisnode.HasCode(reply, "WRONGTYPE"):
		c.noteAnswer()
		return driver.ErrWrongType
	}
	clean := c.secrets.clean(err, owners...)
	text := clean.Error()
	if strings.HasPrefix(reply.Error(), "ERR Protocol error: unauthenticated ") { // since Redis 6.2, for a long command
		text = "NOAUTH Authentication required."
	}
	if advice := c.advise(text, sc); advice != "" {
		clean = textError{strings.TrimSuffix(text, ".") + "; " + advice, []error{clean}}
	}
	if isRefusedLogin(text) {
		refusal := clean.Error()
		c.latest.Store(&refusal)
	} else {
		c.noteAnswer()
	}
	return clean
}

// explainClosed explains the error of a connection that the server has closed. A server that refuses a login closes the
// connection when a long command comes, and the refusal may not be read any more.
func (c *Client) explainClosed(err error) error {
	closed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	switch latest := c.latest.Load(); {
	case !closed:
	case latest == nil && !c.tls:
		return textError{err.Error() + "; the server has not answered anything yet: one that speaks TLS only needs TLSConfig, or a URL that begins with rediss://", []error{err}}
	case latest != nil && *latest != "":
		return errors.New(*latest) // not err: the cause is not the network
	}
	return err
}

// isRefusedLogin reports whether an error reply refuses the user or the password.
func isRefusedLogin(reply string) bool {
	return strings.Contains(reply, "NOAUTH ") || strings.Contains(reply, "WRONGPASS ") || strings.Contains(reply, "ERR invalid password") ||
		strings.Contains(reply, "ERR Client sent AUTH, but no password is set")
}

// IsRefusedLogin reports whether an error of a Client means that the server has refused the user or the password.
func IsRefusedLogin(err error) bool { return err != nil && isRefusedLogin(err.Error()) }

// advise returns what to do about an error reply, "" if that is not known. sc is the script, or nil.
func (c *Client) advise(reply string, sc *redisnode.Script) string {
	single := c.cluster == nil
	is := func(words string) bool { return strings.Contains(reply, words) }
	switch {
	case isRefusedLogin(reply) && is("sentinels"):
		return "set SentinelUsername and SentinelPassword in the redis.FailoverOptions"
	case is("NOAUTH "):
		return "set Password in the options of the client, or in the URL"
	case isRefusedLogin(reply):
		return "check Username and Password in the options of the client, or in the URL"
	case is("NOPERM ") || is("ACL failure") || is("The user executing the script can't"):
		return c.missingRight(reply, sc)
	case single && (is("MOVED ") || is("CROSSSLOT ")):
		return "this server is a node of a cluster: use redis.NewClusterClient"
	case !single && is("cluster support disabled"):
		return "this server is not a cluster: use redis.NewClient"
	case single && len(c.addresses) > 0 && is("READONLY "):
		return "this server is a replica: use the address of its master, or redis.NewFailoverClient"
	case is("bad lua script for redis cluster"):
		return "this server takes only scripts that name each key as KEYS and a number: set its parameter script_check_enable to 0"
	case is("unknown command 'eval") || is("unknown command 'EVAL") || is("unknown command `eval"):
		return "the commands EVALSHA and EVAL are needed: rename-command has removed one, or the server has no Lua"
	}
	return ""
}

const sentinelAdvice = "this is a Sentinel, which keeps no locks: use redis.NewFailoverClient, with its address in SentinelAddrs"

var (
	namedCommand = regexp.MustCompile(`'([\w|]+)' command`)
	scriptLine   = regexp.MustCompile(`@user_script:(\d+)`)
	luaCall      = regexp.MustCompile(`call\('([A-Z]+)'`)
)

// missingRight returns the rule of an ACL that a user lacks. Redis 7.0 does not name the command of a script, but its line.
func (c *Client) missingRight(reply string, sc *redisnode.Script) string {
	const allow = "to allow it: ACL SETUSER name "
	pattern := cmp.Or(c.Pattern, "pattern")
	if strings.Contains(reply, "channel") {
		return allow + "&" + pattern
	}
	if strings.Contains(reply, "key") {
		return allow + "~" + pattern
	}
	if m := namedCommand.FindStringSubmatch(reply); m != nil {
		return allow + "+" + m[1]
	}
	if m := scriptLine.FindStringSubmatch(reply); m != nil && sc != nil {
		line, _ := strconv.Atoi(m[1])
		if lines := strings.Split(sc.Source(), "\n"); line >= 1 && line <= len(lines) {
			if m := luaCall.FindStringSubmatch(lines[line-1]); m != nil {
				return allow + "+" + strings.ToLower(m[1])
			}
		}
	}
	return "leasewheel check names the missing rights"
}

// What Refusal returns.
const (
	UnknownCommand = "unknown command"
	NoPermission   = "no permission"
)

// Refusal returns why a command is missing: because of its error reply, the user or the server
// does not have it. It returns "" for any other error, which the command itself has caused.
func Refusal(reply string) string {
	lower := strings.ToLower(reply)
	is := func(words string) bool { return strings.Contains(lower, words) }
	switch {
	case is("unknown command"), is("unknown redis command"), is("unknown redict command"), is("unknown subcommand"):
		return UnknownCommand
	case strings.Contains(reply, "NOPERM"), is("permission"), is("acl failure"), is("the user executing the script can't"):
		return NoPermission
	}
	return ""
}

// isSentinel reports whether the server that does not know a command is a Sentinel. The caller has called Begin.
func (c *Client) isSentinel(ctx context.Context, reply error) bool {
	if c.cluster != nil || !strings.Contains(reply.Error(), "unknown command") {
		return false
	}
	info := NewCommand("info", "server")
	if c.node.Do(ctx, info) != nil {
		return false
	}
	text, _ := info.Reply.(string)
	return strings.Contains(text, "_mode:sentinel") // redis_mode, in Valkey server_mode
}

// executedNothing reports whether err is the reply of a server that has executed nothing. Within a
// script, a server refuses the first write for one of the codes from OOM on, and none after it.
func executedNothing(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	for _, start := range []string{
		"LOADING ", "NOAUTH ", "WRONGPASS ", "DENIED ", "CLUSTERDOWN ", "MASTERDOWN ", "TRYAGAIN ", "BUSY ", "CROSSSLOT ",
		"ERR max number of clients", "ERR unknown command", "ERR Protocol error: unauthenticated ",
	} {
		if strings.HasPrefix(text, start) {
			return true
		}
	}
	if strings.HasPrefix(text, "NOPERM ") {
		return !strings.Contains(text, "script") // a command of the script may come after others
	}
	return slices.ContainsFunc([]string{"OOM", "MISCONF", "NOREPLICAS", "READONLY"}, func(code string) bool { return redisnode.HasCode(reply, code) })
}

// IsTryAgain reports whether err is a TRYAGAIN reply. A node sends it when the slot is being
// migrated and the node has only some of the script's keys. The script was not executed.
func IsTryAgain(err error) bool { return redis.HasErrorPrefix(err, "TRYAGAIN") }
