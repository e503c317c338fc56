package whole

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// lease is what the keys of the server say of a holder of a lock.
type lease struct {
	owner   string
	token   uint64
	mode    string // as the scripts for shared locks have it; "x" is exclusive
	members []string
	left    time.Duration
}

const (
	prefix    = "lw:"
	exclusive = "x"
	reading   = "r"
	writing   = "w"
	permit    = "p"
	several   = "m"
)

func lockKey(key string) string { return prefix + "{" + key + "}" }

// holders returns who has a lock, by the keys alone, in the order of their tokens.
func (s *server) holders(key string) []lease {
	s.tell()
	db, name := s.redis.DB(0), lockKey(key)
	switch db.Type(name) {
	case "string":
		value, _ := db.Get(name)
		owner, text := cutLast(value)
		token, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil
		}
		return []lease{{owner: owner, token: token, mode: exclusive, left: db.TTL(name)}}
	case "zset":
		return s.sharers(key)
	default:
		return nil
	}
}

// sharers returns who has a shared lock: those whose ends are to come.
func (s *server) sharers(key string) []lease {
	db, name := s.redis.DB(0), lockKey(key)
	ends, _ := db.SortedSet(name)
	now := s.clock().UnixMilli()
	var all []lease
	for owner, end := range ends {
		words := strings.Fields(db.HGet(name+":r", owner))
		if int64(end) <= now || len(words) < 3 {
			continue
		}
		token, err := strconv.ParseUint(words[1], 10, 64)
		if err != nil {
			continue
		}
		l := lease{owner: owner, token: token, mode: words[0], left: time.Duration(int64(end)-now) * time.Millisecond}
		if l.mode == several {
			l.members = strings.Fields(db.HGet(name+":r", "{"+owner))
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b lease) int { return cmp.Compare(a.token, b.token) })
	return all
}

// alive returns those in the queue of an exclusive lock whose places have not ended.
func (s *server) alive(key string) []string {
	db, name := s.redis.DB(0), lockKey(key)
	queue, _ := db.List(name + ":q")
	ends, _ := db.SortedSet(name + ":w")
	return slices.DeleteFunc(slices.Clone(queue), func(owner string) bool {
		return int64(ends[owner]) <= s.clock().UnixMilli()
	})
}

// cutLast cuts a text at its last space.
func cutLast(text string) (before, after string) {
	at := strings.LastIndexByte(text, ' ')
	if at < 0 {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// overlap tells whether two lists have a member in common.
func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}
