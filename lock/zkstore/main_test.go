package zkstore

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testzk"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "32") // most of the tests wait
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		testzk.CloseShared()
		os.Exit(code)
	}))
}
