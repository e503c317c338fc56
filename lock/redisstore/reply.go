package redisstore

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// Replies are read strictly: what is not exactly as the script says is an error,
// never a success. An error shows the shape of a reply only, for the content may
// be an owner.

const maxToken = 1<<53 - 1 // Lua counts no further

// verdict is the first element of a reply of the acquire script.
type verdict int64

const (
	refused verdict = -1
	taken   verdict = 0
	granted verdict = 1
)

// Replies of the release script, beside 0.
const hadLock = 1

// acquired is a reply of the acquire script.
type acquired struct {
	verdict   verdict
	token     uint64        // of the holder
	head      bool          // if taken: first in the queue
	expiresIn time.Duration // if taken; 0 if the server cannot tell
}

func parseAcquired(reply any) (acquired, error) {
	items, ok := reply.([]any)
	if !ok || len(items) == 0 {
		return acquired{}, unexpected(reply)
	}
	code, ok := items[0].(int64)
	if !ok {
		return acquired{}, unexpected(reply)
	}
	a := acquired{verdict: verdict(code)}
	switch {
	case a.verdict == refused && len(items) == 1:
		return a, nil
	case a.verdict == granted && len(items) == 2:
		a.token, ok = parseToken(items[1])
	case a.verdict == taken && len(items) == 4:
		var okToken, okExpiry bool
		a.token, okToken = parseToken(items[1])
		a.expiresIn, okExpiry = parseExpiry(items[2])
		head, okHead := items[3].(int64)
		a.head = head == 1
		ok = okToken && okExpiry && okHead && (head == 0 || head == 1)
	default:
		ok = false
	}
	if !ok {
		return acquired{}, unexpected(reply)
	}
	return a, nil
}

// parseCode reads a reply that is a number from 0 to most.
func parseCode(reply any, most int64) (int64, error) {
	code, ok := reply.(int64)
	if !ok || code < 0 || code > most {
		return 0, unexpected(reply)
	}
	return code, nil
}

// parseReleased reads the reply of a release script.
func parseReleased(reply any) error {
	had, err := parseCode(reply, 2)
	switch {
	case err != nil:
		return err
	case had != hadLock:
		return lock.ErrNotHeld
	}
	return nil
}

// parseLost reads the reply of the renew script for n leases: rising indexes from
// 1 to n.
func parseLost(reply any, n int) ([]any, error) {
	lost, ok := reply.([]any)
	if !ok || len(lost) > n {
		return nil, unexpected(reply)
	}
	var last int64
	for _, item := range lost {
		index, ok := item.(int64)
		if !ok || index <= last || index > int64(n) {
			return nil, unexpected(reply)
		}
		last = index
	}
	return lost, nil
}

// parseInfo reads the reply of the inspect script.
func parseInfo(reply any) (lock.Info, error) {
	items, ok := reply.([]any)
	if !ok || len(items) != 5 {
		return lock.Info{}, unexpected(reply)
	}
	waiting, ok := items[2].(int64)
	if !ok || waiting < 0 {
		return lock.Info{}, unexpected(reply)
	}
	info := lock.Info{Waiting: int(waiting)}
	if items[4] != nil {
		if info.Token, ok = parseToken(items[4]); !ok {
			return lock.Info{}, unexpected(reply)
		}
	}
	if items[0] == nil {
		return info, nil
	}
	value, _ := items[0].(string)
	h, ok := parseValue(value)
	if !ok {
		return lock.Info{}, lock.ErrWrongType
	}
	if h.ExpiresIn, ok = parseExpiry(items[1]); !ok {
		return lock.Info{}, unexpected(reply)
	}
	if items[1] == int64(0) {
		h.ExpiresIn = time.Millisecond // the last one, of which a part is left
	}
	info.Holders, info.Held, info.Token = []lock.Holder{h}, 1, max(info.Token, h.Token)
	return info, nil
}

// parseValue reads the value of an exclusive lock: "owner token"; see named.
func parseValue(value string) (h lock.Holder, ok bool) {
	space := strings.LastIndexByte(value, ' ')
	if space < 0 {
		return h, false
	}
	h.Metadata = metadataOf(value[:space])
	h.Token, ok = parseToken(value[space+1:])
	return h, ok
}

// parseToken reads a token: digits, and nothing else, no zero before them.
func parseToken(item any) (uint64, bool) {
	text, ok := item.(string)
	if !ok {
		return 0, false
	}
	token, err := strconv.ParseUint(text, 10, 64)
	return token, err == nil && text[0] != '0' && token <= maxToken
}

// parseExpiry reads a PTTL; its negative answers are 0.
func parseExpiry(item any) (time.Duration, bool) {
	ms, ok := item.(int64)
	if !ok || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, false
	}
	return time.Duration(max(ms, 0)) * time.Millisecond, true
}

func unexpected(reply any) error {
	if items, ok := reply.([]any); ok {
		return fmt.Errorf("the server answered what the script cannot: %d elements of %T", len(items), items)
	}
	return fmt.Errorf("the server answered what the script cannot: %T", reply)
}
