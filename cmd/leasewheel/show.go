// The commands ls and inspect.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// lockState is what ls and inspect show of a lock. Its JSON form is part of the interface.
type lockState struct {
	Key     string        `json:"key"`
	Held    int           `json:"held"`
	Waiting int           `json:"waiting"`
	Token   uint64        `json:"token"`           // the last one granted; 0 if the server has forgotten it
	FreeIn  int64         `json:"freeInMs"`        // above 0: released before its MinHold
	Holders []holderState `json:"holders"`         // the first 16
	Queue   []string      `json:"queue,omitempty"` // the metadata of the first 100 waiters
	Waited  int64         `json:"firstWaitedMs,omitempty"`
	Error   string        `json:"error,omitempty"` // in a list: the key is no lock, for example
}

type holderState struct {
	Mode      string `json:"mode"`
	Token     uint64 `json:"token"`
	ExpiresIn int64  `json:"expiresInMs"` // unless it is renewed
	Metadata  string `json:"metadata"`
	Permits   int    `json:"permits,omitempty"`
	Members   int    `json:"members,omitempty"`
}

// stateOf returns the state in an Info.
func stateOf(key string, info lock.Info) lockState {
	s := lockState{
		Key: key, Held: info.Held, Waiting: info.Waiting, Token: info.Token,
		FreeIn: info.FreeIn.Milliseconds(), Holders: []holderState{},
	}
	for _, h := range info.Holders {
		s.Holders = append(s.Holders, holderStateOf(h))
	}
	for _, p := range info.Places {
		s.Queue = append(s.Queue, p.Metadata)
	}
	if len(info.Places) > 0 {
		s.Waited = info.Places[0].Waited.Milliseconds()
	}
	return s
}

func holderStateOf(h driver.Holder) holderState {
	return holderState{
		Mode: h.Mode.String(), Token: h.Token, ExpiresIn: h.ExpiresIn.Milliseconds(),
		Metadata: h.Metadata, Permits: h.Permits, Members: h.Members,
	}
}

// taken reports whether the lock is held or kept.
func (s *lockState) taken() bool { return s.Held > 0 || s.FreeIn > 0 }

// status describes the lock in one word and a time.
func (s *lockState) status() string {
	switch {
	case s.Error != "":
		return s.Error
	case s.FreeIn > 0:
		return "free in " + inWords(s.FreeIn)
	case s.Held == 0:
		return "free"
	case s.Held == 1:
		return s.Holders[0].Mode
	}
	return fmt.Sprintf("%d %s", s.Held, s.Holders[0].Mode)
}

// inWords returns a time in milliseconds as text.
func inWords(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(100 * time.Millisecond).String()
}

// quoted returns a text without control characters. Keys and metadata are written by others,
// and could change a terminal.
func quoted(text string) string {
	q := fmt.Sprintf("%q", text)
	if plain := q[1 : len(q)-1]; plain == text && text != "" && !strings.ContainsAny(text, " ") {
		return text
	}
	return q
}

// showOptions are the flags of the commands that show locks.
type showOptions struct {
	connection
	json bool
}

func (o *showOptions) defineJSON(f *flag.FlagSet) {
	o.define(f)
	f.BoolVar(&o.json, "json", false, "print JSON")
}

// printJSON prints a value as JSON, with escapes for all that could control a terminal.
func printJSON(w io.Writer, value any) error {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(value); err != nil {
		return err
	}
	var escaped []byte
	for _, r := range b.String() {
		if !isControl(r) {
			escaped = utf8.AppendRune(escaped, r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			escaped = fmt.Appendf(escaped, `\u%04x`, unit)
		}
	}
	_, err := w.Write(escaped)
	return err
}

// withClient calls f with a client that takes no locks.
func (o *connection) withClient(std streams, f func(ctx context.Context, c *lock.Client) error) int {
	ctx, cancel := readContext()
	defer cancel()
	client, err := o.client(ctx, std, lock.Options{})
	if err != nil {
		return fail(std, err)
	}
	err = f(ctx, client.Client)
	_ = client.shut()
	if err != nil {
		return fail(std, err)
	}
	return 0
}

var lsCommand = command{
	name: "ls", args: "[PREFIX]", maxArgs: 1,
	summary: "list the locks that are held",
	about: `
Lists the locks whose keys begin with the prefix and that are held, with their holders. It looks at
every key of the database (SCAN), in a cluster on all masters, and then at each lock. The list is no snapshot.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o showOptions
		o.defineJSON(f)
		return func(args []string, std streams) int {
			return o.withClient(std, func(ctx context.Context, c *lock.Client) error {
				states, err := statesOf(ctx, c, strings.Join(args, ""))
				if err != nil {
					return err
				}
				if o.json {
					return printJSON(std.out, states)
				}
				printTable(std.out, states)
				return nil
			})
		}
	},
}

// statesOf returns the locks that are taken, sorted by key.
func statesOf(ctx context.Context, c *lock.Client, prefix string) ([]lockState, error) {
	states := []lockState{}
	for key, err := range c.List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		info, err := c.Inspect(ctx, key)
		switch s := stateOf(key, info); {
		case errors.Is(err, lock.ErrWrongType):
			s.Error = "not a lock"
			states = append(states, s)
		case err != nil:
			return nil, err
		case s.taken():
			states = append(states, s)
		}
	}
	slices.SortFunc(states, func(a, b lockState) int { return strings.Compare(a.Key, b.Key) })
	return states, nil
}

// printTable prints locks, one in a line.
func printTable(w io.Writer, states []lockState) {
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "KEY\tSTATE\tENDS IN\tWAITING\tTOKEN\tHOLDER")
	for _, s := range states {
		ends, holder := "", ""
		if len(s.Holders) > 0 {
			ends, holder = inWords(s.Holders[0].ExpiresIn), s.Holders[0].Metadata
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%d\t%s\n", quoted(s.Key), s.status(), ends, s.Waiting, s.Token, shown(holder))
	}
	_ = table.Flush()
}

// shown returns metadata for people: without quotes if nothing in it needs them.
func shown(text string) string {
	if q := quoted(text); q != `"`+text+`"` {
		return q
	}
	return text
}

var inspectCommand = command{
	name: "inspect", args: "KEY", minArgs: 1, maxArgs: 1,
	summary: "show who holds and who waits for a lock",
	about: `
Shows the holders of a lock, the time until each lease ends unless it is renewed, the fencing token, the
waiters, and how long the first has waited. The exit status is 0 whether or not the lock is held.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o showOptions
		o.defineJSON(f)
		return func(args []string, std streams) int {
			return o.withClient(std, func(ctx context.Context, c *lock.Client) error {
				info, err := c.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				state := stateOf(args[0], info)
				if o.json {
					return printJSON(std.out, state)
				}
				printState(std.out, &state)
				return nil
			})
		}
	},
}

// printState prints one lock in several lines.
func printState(w io.Writer, s *lockState) {
	fmt.Fprintf(w, "%s: %s, %d waiting, last token %d\n", quoted(s.Key), s.status(), s.Waiting, s.Token)
	for _, h := range s.Holders {
		size := ""
		switch {
		case h.Permits > 1:
			size = fmt.Sprintf(", %d permits", h.Permits)
		case h.Members > 0:
			size = fmt.Sprintf(", %d members", h.Members)
		}
		fmt.Fprintf(w, "  holder  %s%s, token %d, ends in %s: %s\n", h.Mode, size, h.Token, inWords(h.ExpiresIn), shown(h.Metadata))
	}
	if s.Waited > 0 {
		fmt.Fprintf(w, "  the first waiter has waited %s\n", inWords(s.Waited))
	}
	for _, q := range s.Queue {
		fmt.Fprintf(w, "  waiter  %s\n", shown(q))
	}
}
