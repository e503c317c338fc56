package redisstore

// While a slot moves from one node to another, the keys of a shared lock may be on both.
// The nodes then answer TRYAGAIN to a script that names several of these keys, but they
// execute scripts with one key. Such a lease is therefore renewed key by key, each on
// the node that has the key.
//
// This is as safe as one script. The records show that the owner holds its lease with this
// token. The owner can get another token only if its lease has expired and a late request of
// its own takes the lock again. Such a request names several keys, so it is refused while
// the slot moves. The holders come last, and show that the lease has not expired.

// step is the part of a renewal that the next script does for an item.
type step uint8

const (
	stepAll     step = iota // all keys, in one script
	stepRecords             // this and the next steps do one key each
	stepMembers
	stepHolders
)

// nextStep returns the item with its next step, to be sent to the master of its slot.
func (it *leaseRef) nextStep() leaseRef {
	next := *it
	next.node, next.asking, next.hops = nil, false, 0
	next.step++
	if next.step == stepMembers && !next.members {
		next.step++
	}
	return next
}

// addStep adds the script for the current step of an item.
func (r *nodeBatch) addStep(index int) {
	it := &r.items[index]
	key, which := it.key, "h"
	switch it.step {
	case stepRecords:
		key, which = it.key+recordsEnd, "r"
	case stepMembers:
		key, which = it.key+membersEnd, "k"
	}
	args := r.batch.Add(sharedKeyScript, 7, it.asking)
	args[2], args[3], args[4], args[5], args[6] = 1, key, it.ttl, &it.value, which
	r.parts = append(r.parts, scriptCall{index, index + 1})
}
