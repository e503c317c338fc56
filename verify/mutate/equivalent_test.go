package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	// The go command runs the test again, instead of using a cached result, when one of
	// these packages changes.
	_ "github.com/leasewheel/leasewheel/heapqueue"
	_ "github.com/leasewheel/leasewheel/lock"
	_ "github.com/leasewheel/leasewheel/lock/quorumstore"
	_ "github.com/leasewheel/leasewheel/lock/redisstore"
	_ "github.com/leasewheel/leasewheel/renewal"
	_ "github.com/leasewheel/leasewheel/wheel"
)

// TestEquivalentsExist fails for entries of equivalent.txt that describe no mutant,
// because the code has changed.
func TestEquivalentsExist(t *testing.T) {
	entries, err := parseEquivalents(equivalentText)
	require.NoError(t, err)
	_, stale, err := matchAll("../..", entries)
	require.NoError(t, err)
	for _, e := range stale {
		assert.Fail(t, "no such mutant", "%s\nCorrect the entry, or delete it.", e)
	}
}

func TestParseEquivalentsRejectsMalformedText(t *testing.T) {
	for _, text := range []string{"p f\n- a\n+ b\n", "p f\n- a\n= b\n+ c\n", "p\n- a\n+ b\n= c\n"} {
		_, err := parseEquivalents(text)
		assert.Error(t, err, text)
	}
}

func TestEquivalentsSurviveARename(t *testing.T) {
	mutantIn := func(function, before, after string) *mutant {
		return &mutant{function: function, before: before, after: after}
	}
	e := &entry{pkg: "p", function: "queue.pop", before: "q.size > 0 && q.size != limit", after: "q.size >= 0 && q.size != limit", reason: "r"}
	match := func(mutants ...*mutant) (indexes []int) {
		found, stale := matchEquivalents([]*entry{e}, "p", mutants)
		assert.Equal(t, len(found) == 0, len(stale) == 1)
		for i, m := range mutants {
			if found[m] != nil {
				indexes = append(indexes, i)
			}
		}
		return indexes
	}
	same := mutantIn("queue.pop", e.before, e.after)
	fields := mutantIn("queue.pop", "q.count > 0 && q.count != most", "q.count >= 0 && q.count != most")
	others := mutantIn("queue.pop", "q.total > 0 && q.total != most", "q.total >= 0 && q.total != most")
	mixed := mutantIn("queue.pop", "q.count > 0 && q.total != most", "q.count >= 0 && q.total != most")
	number := mutantIn("queue.pop", "q.count > 1 && q.count != most", "q.count >= 1 && q.count != most")
	method := mutantIn("queue.take", fields.before, fields.after)
	receiver := mutantIn("ring.pop", fields.before, fields.after)
	both := mutantIn("ring.take", fields.before, fields.after)

	assert.Equal(t, []int{0}, match(same, fields), "the exact text comes first")
	assert.Equal(t, []int{0, 1}, match(same, same), "repeated code")
	assert.Equal(t, []int{0}, match(fields, method), "the function exists")
	assert.Empty(t, match(fields, others), "ambiguous")
	assert.Empty(t, match(mixed), "inconsistent names")
	assert.Empty(t, match(number), "another number")
	assert.Equal(t, []int{0}, match(method))
	assert.Equal(t, []int{0}, match(receiver))
	assert.Empty(t, match(both), "another function")
	assert.Empty(t, match(method, receiver), "ambiguous")

	short := &entry{pkg: "p", function: "queue.pop", before: "q.stop()", after: "(nothing)"}
	found, _ := matchEquivalents([]*entry{short}, "p", []*mutant{mutantIn("queue.take", short.before, short.after)})
	assert.Empty(t, found, "short text in another function")

	found, _ = matchEquivalents([]*entry{e}, "p", []*mutant{method})
	entries, err := parseEquivalents(formatEquivalents([]*entry{e}, found))
	require.NoError(t, err)
	assert.Equal(t, key{entries[0].function, entries[0].before, entries[0].after}, method.key())
}
