-- The metadata of a holder or waiter, in a key of its own that Redisson does not know.
--
-- Bound: one command.

local METADATA_MS = 86400000

local function keep_metadata(key, metadata)
  if metadata ~= '' then
    redis.call('SET', key, metadata, 'PX', METADATA_MS)
  end
end

