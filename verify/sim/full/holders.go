// The holders and waiters of a lock, read from the keys of a server.

package full

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/verify/sim"
)

// lease describes a holder of a lock as the keys of a server show it.
type lease struct {
	owner   string
	token   uint64
	mode    string // see sim.Exclusive
	members []string
	left    time.Duration
}

const prefix = "lw:"

func lockKey(key string) string { return prefix + "{" + key + "}" }

// holders returns the holders of a lock in the order of their tokens, from the keys alone.
func (s *server) holders(key string) []lease {
	s.setTime()
	db, name := s.redis.DB(0), lockKey(key)
	switch db.Type(name) {
	case "string":
		value, _ := db.Get(name)
		owner, token, ok := cutToken(value)
		if !ok {
			return nil
		}
		return []lease{{owner: owner, token: token, mode: sim.Exclusive, left: db.TTL(name)}}
	case "zset":
		return s.sharers(key)
	default:
		return nil
	}
}

// keptOwner is the owner of a lock that stays taken by nobody. A batch keeps its former owner, and
// half a millisecond in the end of its lease shows that nobody holds it.
const keptOwner = "{kept}"

// sharers returns the holders of a shared lock with unexpired leases.
func (s *server) sharers(key string) []lease {
	db, name := s.redis.DB(0), lockKey(key)
	ends, _ := db.SortedSet(name)
	now := s.clock().UnixMilli()
	var all []lease
	for owner, end := range ends {
		words := strings.Fields(db.HGet(name+":r", owner))
		if end <= float64(now) || len(words) < 3 {
			continue
		}
		token, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			continue
		}
		l := lease{owner: owner, token: token, mode: words[0], left: time.Duration(int64(math.Ceil(end))-now) * time.Millisecond}
		if end != math.Trunc(end) {
			l.owner = keptOwner
		}
		if l.mode == sim.Members {
			l.members = strings.Fields(db.HGet(name+":r", "{"+owner))
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b lease) int { return cmp.Compare(a.token, b.token) })
	return all
}

// alive returns the waiters of an exclusive lock with live places.
func (s *server) alive(key string) []string {
	db, name := s.redis.DB(0), lockKey(key)
	queue, _ := db.List(name + ":q")
	ends, _ := db.SortedSet(name + ":w")
	return slices.DeleteFunc(slices.Clone(queue), func(owner string) bool {
		return int64(ends[owner]) <= s.clock().UnixMilli()
	})
}
