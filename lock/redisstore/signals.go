// The signals that notify a waiter of its grant.

package redisstore

import (
	"crypto/sha1"
	"crypto/subtle"
	"encoding/hex"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// signals is the pubsub.Codec of the signals that the scripts publish: "id token proof", or
// "id token proof state" for a waiter that asks for the state of the key. A signal notifies a waiter that
// it was granted the lock, by that token. Token 0 makes the waiter ask the server.
type signals struct{}

// ID implements pubsub.Codec. queue.lua computes the same. The digest of the owner does not
// show the owner.
func (signals) ID(owner string) string { return digest(owner)[:16] }

// Parse implements pubsub.Codec.
func (signals) Parse(payload string) (id string, token uint64, ok bool) {
	id, rest, _ := strings.Cut(payload, " ")
	text, _, _ := strings.Cut(rest, " ")
	token, ok = parseToken(text)
	return id, token, ok || text == "0"
}

// Verify implements pubsub.Codec. Only the owner and the server know the owner, so only
// they can make the proof. A proof of one token does not help to make that of another,
// because the digest begins with the secret. From a proof of one text, anybody can compute that of some
// longer texts, but none of these is a token, or a token and a digest.
func (signals) Verify(owner, payload string) bool {
	_, rest, _ := strings.Cut(payload, " ")
	token, rest, _ := strings.Cut(rest, " ")
	proof, state, told := strings.Cut(rest, " ")
	if told {
		token += " " + digest(state)
	}
	return subtle.ConstantTimeCompare([]byte(proof), []byte(proofOf(owner, token))) == 1
}

// proofOf returns the proof of a token, or of a token and the digest of a state.
func proofOf(owner, proven string) string { return digest(owner + " " + proven) }

// savedIn returns the state in a signal, nil if the signal has none.
func savedIn(payload string) *driver.Saved {
	fields := strings.SplitN(payload, " ", 4)
	if len(fields) < 4 {
		return nil
	}
	if saved, ok := parseSaved(fields[3]); ok {
		return saved
	}
	return nil
}

func digest(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}
