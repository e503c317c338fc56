package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each version of a library is compiled by itself, and so is all that imports it.
func TestPrivateModulesRequireTheSameVersions(t *testing.T) {
	modules, err := findModules("../..")
	require.NoError(t, err)
	folders := map[string]map[string]string{} // of each required module, the folder that requires a version
	for _, m := range modules {
		// The programs of tools share nothing with tests, and the check of Kubernetes shares with what it checks.
		if m.public || m.rel == "tools" || m.rel == "contrib/adapter/k8s/check" {
			continue
		}
		file, err := m.read()
		require.NoError(t, err)
		for _, r := range file.Require {
			if folders[r.Mod.Path] == nil {
				folders[r.Mod.Path] = map[string]string{}
			}
			folders[r.Mod.Path][r.Mod.Version] = m.rel
		}
	}
	assert.Contains(t, folders, "github.com/redis/go-redis/v9")
	for path, versions := range folders {
		assert.Len(t, versions, 1, "go get %s@latest in all of them, then go mod tidy", path)
	}
}

// Kubernetes is more to compile than all that other private modules share.
func TestTheCheckOfK8sRequiresTheSameKubernetes(t *testing.T) {
	versions := func(folder string) map[string]string {
		file, err := module{folder: folder}.read()
		require.NoError(t, err)
		of := map[string]string{}
		for _, r := range file.Require {
			if strings.HasPrefix(r.Mod.Path, "k8s.io/") {
				of[r.Mod.Path] = r.Mod.Version
			}
		}
		return of
	}
	adapter, check := versions("../../contrib/adapter/k8s"), versions("../../contrib/adapter/k8s/check")
	require.NotEmpty(t, adapter)
	for path, version := range adapter {
		assert.Equal(t, version, check[path], path)
	}
}
