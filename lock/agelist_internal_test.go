package lock

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// take returns items in the order in which they were added, each once, and only those that
// are old and were not removed.
func TestAgeList(t *testing.T) {
	type item struct {
		name string
		node ageNode[item]
	}
	var l ageList[item]
	names := func(items []*item) (names string) {
		for _, i := range items {
			names += i.name
		}
		return names
	}
	add := func(name string) *item {
		i := &item{name: name}
		l.add(&i.node, i)
		return i
	}
	advance := func(age int) (string, bool) {
		l.tick()
		old, left := l.take(age)
		return names(old), left
	}
	expect := func(wantOld string, wantLeft bool, age int) {
		t.Helper()
		old, left := advance(age)
		assert.Equal(t, wantOld, old)
		assert.Equal(t, wantLeft, left)
	}

	expect("", false, 0)
	a, b, c := add("a"), add("b"), add("c")
	l.remove(&b.node)
	expect("", true, 1)
	d := add("d")
	expect("ac", true, 1)
	l.remove(&a.node) // not in the list
	l.remove(&c.node)
	expect("d", false, 1)
	l.add(&d.node, d)
	e := add("e")
	l.remove(&e.node)
	l.remove(&d.node)
	expect("", false, 0)
	add("f")
	l.remove(&add("g").node)
	expect("f", false, 0)

	for range maxTaken + 1 {
		add("h")
	}
	l.tick()
	first, left := l.take(0)
	assert.Len(t, first, maxTaken)
	assert.True(t, left)
	rest, left := l.take(0)
	assert.Len(t, rest, 1)
	assert.False(t, left)
}
