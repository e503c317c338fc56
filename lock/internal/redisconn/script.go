package redisconn

import (
	"crypto/sha1"
	"encoding/hex"
)

// Script is a Lua script. The client sends its digest, and its source if the server
// replies NOSCRIPT after a restart or a flush. A server that replies NOSCRIPT has not
// executed the script, so the script does not run twice.
type Script struct {
	digest, source string

	// Eager marks a script with few keys. During the migration of a slot, a node may
	// execute it although the node refuses scripts with more keys.
	Eager bool
}

// NewScript returns a script with the given source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{digest: hex.EncodeToString(sum[:]), source: source}
}

// Digest returns the SHA-1 of the source in hex, which EVALSHA takes.
func (s *Script) Digest() string { return s.digest }

// Source returns the Lua source of the script.
func (s *Script) Source() string { return s.source }

// byDigest and inFull write the command and the script into the first two arguments.
// They store a pointer, because go-redis dereferences it and an any that holds a pointer
// needs no allocation.
func (s *Script) byDigest(args []any) { args[0], args[1] = "evalsha", &s.digest }
func (s *Script) inFull(args []any)   { args[0], args[1] = "eval", &s.source }
