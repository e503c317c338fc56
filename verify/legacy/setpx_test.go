package legacy

import "testing"

// TestSetPXForeignDelete: a process outlives its lease and deletes the lock of the next
// holder.
func TestSetPXForeignDelete(t *testing.T) {
	playKnown(t, "setpx", twoHolders, wrongWrite)
	runScenario(t, "ours", oursPaused)
}
