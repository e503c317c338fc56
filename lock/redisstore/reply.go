// The replies of scripts, and errors.

package redisstore

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Replies are parsed strictly: a reply that differs from the header of its script is an
// error, never a success. Errors show only the shape of a reply, because its content may
// contain an owner.

const maxToken = 1<<53 - 1 // larger numbers are not exact in Lua

// verdict is the first element of a reply of the acquire script.
type verdict int64

const (
	refused verdict = -1
	taken   verdict = 0
	granted verdict = 1
)

// released is the reply of the release script to an owner that held the lock.
const released = 1

// acquired is a reply of the acquire script.
type acquired struct {
	verdict   verdict
	token     uint64        // of the holder, or of the grant
	head      bool          // if taken: the owner is first in the queue
	expiresIn time.Duration // if taken; 0 if the server cannot tell
	member    int64         // if taken: the number of a member that is taken, from 1; 0 if the server reports none
	sent      time.Time     // an instant before the request was sent
	saved     *driver.Saved // if granted to a request that is Stateful
}

// parseAcquired parses the reply of an acquire script. A grant has the state of the key if the request asked for it. That of
// an exclusive lock without a state is the token alone.
func parseAcquired(stateful bool, r redisconn.Reply) (acquired, error) {
	reply := r.Value
	if token, ok := parseToken(reply); ok && !stateful {
		return acquired{verdict: granted, token: token, sent: r.Sent}, nil
	}
	items, ok := reply.([]any)
	if !ok || len(items) == 0 {
		return acquired{}, rediskit.UnexpectedReply(reply)
	}
	code, ok := items[0].(int64)
	if !ok {
		return acquired{}, rediskit.UnexpectedReply(reply)
	}
	a := acquired{verdict: verdict(code), sent: r.Sent}
	switch {
	case a.verdict == refused && len(items) == 1:
		return a, nil
	case a.verdict == granted && len(items) == 2 && !stateful: // of a shared lock
		a.token, ok = parseToken(items[1])
	case a.verdict == granted && len(items) == 3 && stateful:
		var okSaved bool
		a.token, ok = parseToken(items[1])
		a.saved, okSaved = parseSaved(items[2])
		ok = ok && okSaved
	case a.verdict == taken && (len(items) == 4 || len(items) == 5):
		var okToken, okExpiry bool
		a.token, okToken = parseToken(items[1])
		a.expiresIn, okExpiry = parseExpiry(items[2])
		head, okHead := items[3].(int64)
		a.head = head == 1
		ok = okToken && okExpiry && okHead && (head == 0 || head == 1)
		if ok && len(items) == 5 {
			a.member, ok = items[4].(int64)
			ok = ok && a.member >= 1 && a.member <= driver.MaxMembers
		}
	default:
		ok = false
	}
	if !ok {
		return acquired{}, rediskit.UnexpectedReply(reply)
	}
	return a, nil
}

// isUnsent reports whether the server does not know the members of a request that did not
// send them.
func isUnsent(reply any) bool {
	items, ok := reply.([]any)
	return ok && len(items) == 1 && items[0] == int64(2)
}

// parseCode reads a reply that is a number from 0 to most.
func parseCode(reply any, most int64) (int64, error) {
	code, ok := reply.(int64)
	if !ok || code < 0 || code > most {
		return 0, rediskit.UnexpectedReply(reply)
	}
	return code, nil
}

// parseReleased reads the reply of a release script.
func parseReleased(reply any) error {
	had, err := parseCode(reply, 2)
	switch {
	case err != nil:
		return err
	case had != released:
		return driver.ErrNotHeld
	}
	return nil
}

// parseLost reads the reply of the script that releases n leases: indexes from 1 to n in rising
// order.
func parseLost(reply any, n int) ([]any, error) {
	lost, err := rediskit.ParseDenied(reply, n)
	if slices.ContainsFunc(lost, func(index any) bool { return index.(int64) < 0 }) {
		return nil, rediskit.UnexpectedReply(reply)
	}
	return lost, err
}

// parseInfo reads the reply of the inspect script.
func parseInfo(reply any) (driver.Info, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 7 {
		return driver.Info{}, rediskit.UnexpectedReply(reply)
	}
	waiting, okWaiting := items[2].(int64)
	places, okPlaces := parsePlaces(items[3], items[6])
	token, okToken := parseTokenOrNone(items[4])
	if !okWaiting || !okPlaces || !okToken || waiting < 0 {
		return driver.Info{}, rediskit.UnexpectedReply(reply)
	}
	info := driver.Info{Waiting: int(waiting), Places: places, Token: token}
	if items[0] == nil {
		return info, nil
	}
	value, _ := items[0].(string)
	h, ok := parseValue(value)
	if !ok {
		return driver.Info{}, driver.ErrWrongType
	}
	if metadata, ok := parseMetadata(items[5], h.Token); ok {
		h.Metadata = metadata
	}
	if h.ExpiresIn, ok = parseExpiry(items[1]); !ok {
		return driver.Info{}, rediskit.UnexpectedReply(reply)
	}
	if items[1] == int64(0) {
		h.ExpiresIn = time.Millisecond // less than a millisecond is left
	}
	info.Token = max(info.Token, h.Token)
	if strings.HasPrefix(value, keptOwner+" ") {
		info.FreeIn = h.ExpiresIn
		return info, nil
	}
	info.Holders, info.Held = []driver.Holder{h}, 1
	return info, nil
}

// keptOwner is the owner of a lock that stays taken by nobody after its release; see release.lua.
const keptOwner = "{kept}"

// parsePlaces reads the owners in the queue of an exclusive lock, and the times for which they have waited.
func parsePlaces(owners, times any) ([]driver.Place, bool) {
	list, ok := owners.([]any)
	ms, okTimes := times.([]any)
	if !ok || !okTimes || len(list) != len(ms) {
		return nil, false
	}
	var places []driver.Place
	for i := range list {
		owner, ok := list[i].(string)
		waited, okWaited := parseExpiry(ms[i])
		if !ok || !okWaited {
			return nil, false
		}
		places = append(places, driver.Place{Mode: driver.Exclusive, Metadata: metadataOf(owner), Client: clientNameOf(owner), Waited: waited})
	}
	return places, true
}

// parseMetadata returns the metadata that set_metadata.lua stored for the holder of a token.
func parseMetadata(item any, token uint64) (string, bool) {
	value, _ := item.(string)
	of, metadata, ok := strings.Cut(value, " ")
	return metadata, ok && of == strconv.FormatUint(token, 10)
}

// parseValue reads the value of an exclusive lock: "owner token"; see wireOwner.
func parseValue(value string) (h driver.Holder, ok bool) {
	space := strings.LastIndexByte(value, ' ')
	if space < 0 {
		return h, false
	}
	h.Metadata, h.Client = metadataOf(value[:space]), clientNameOf(value[:space])
	h.Token, ok = parseToken(value[space+1:])
	return h, ok
}

// parseToken reads a token: decimal digits without leading zeros.
func parseToken(item any) (uint64, bool) {
	text, ok := item.(string)
	if !ok {
		return 0, false
	}
	token, err := strconv.ParseUint(text, 10, 64)
	return token, err == nil && text[0] != '0' && token <= maxToken
}

// parseExpiry reads the answer of PTTL. Negative answers become 0.
func parseExpiry(item any) (time.Duration, bool) {
	ms, ok := item.(int64)
	if !ok || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(max(ms, 0)) * time.Millisecond, true
}

// failed returns an error that names the operation that failed.
func failed(verb string, err error) error { return basic.Failed("redisstore", verb, err) }
