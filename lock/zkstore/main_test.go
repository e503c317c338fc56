package zkstore

import (
	"flag"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testzk"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "32") // most of the tests wait
	goleak.VerifyTestMain(testzk.Around(m))
}
