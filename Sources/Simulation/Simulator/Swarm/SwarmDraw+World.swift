import Membership
import Model
import Ownership
import Partitions
import Quotas

// Traits that were added later than the rest. They are drawn after it, so that a seed keeps its earlier
// draws. All values must be legal by `mistake` of their options.

extension SwarmDraw {
    mutating func drawWorld() {
        add("standstill", 0, value: roll(3) == 0 ? 1 : 0) { if $1 == 1 { $0.faults.insert(.standstill) } }
        add("keys-gap-ms", 0, value: roll(4) == 0 ? even(100, 5000) : 0) { $0.keysGapMax = .milliseconds($1) }
        drawBodies()
        drawDeliveries()
        drawQuotas()
        drawLeases()
        drawOwnership()
        drawMembership()
        // Every commit takes as long, whatever a lease is.
        add("commit-ms", 0, value: roll(6) == 0 ? even(400, 3500) : 0) { $0.writeMin = .milliseconds($1) }
    }

    /// Copies of the databases, in about one of six runs of clusters: the options leave them out of others.
    mutating func drawCopies() {
        add("copied-ms", 0, value: roll(4) == 0 ? even(1, 20_000) : 0) { $0.copiedAfter = .milliseconds($1) }
        add("copy-nodes", 2, value: even(1, 3)) { $0.copyNodeCount = Int($1) }
        add("copy-dump", 0, value: roll(2)) { $0.copiesFiles = $1 == 0 }
    }

    /// Half of the bounds stay at their defaults, so that a run meets each small one by itself.
    private mutating func bound(
        _ name: String, _ plain: UInt64, from: UInt64, to: UInt64? = nil,
        apply: @escaping @Sendable (inout Options, UInt64) -> Void
    ) {
        let value = roll(2) == 0 ? magnitude(from, to ?? plain) : plain
        add(name, plain, value: value, apply: apply)
    }

    /// The same for a property of the options, with its default.
    private mutating func bound<Number: FixedWidthInteger & Sendable>(
        _ name: String, _ key: any WritableKeyPath<Options, Number> & Sendable, from: UInt64,
        to: UInt64? = nil
    ) {
        let plain = UInt64(Options(seed: seed)[keyPath: key])
        add(name, key, value: roll(2) == 0 ? magnitude(from, to ?? plain) : plain)
    }

    /// The same for a time, in milliseconds.
    private mutating func bound(_ name: String, _ key: any Length, from: UInt64, to: UInt64? = nil) {
        let plain = Options(seed: seed)[keyPath: key].milliseconds
        add(name, key, value: roll(2) == 0 ? magnitude(from, to ?? plain) : plain)
    }

    private mutating func drawBodies() {
        let plain = Options(seed: seed).partition
        bound("snapshot-slice-bytes", \.partition.snapshotSliceBytes, from: 1, to: 20_000)
        bound("snapshot-part-bytes", \.partition.snapshotPartBytes, from: 20, to: 20_000)
        bound("snapshot-pause-us", plain.snapshotPause.microseconds, from: 0, to: 100_000) {
            $0.partition.snapshotPause = .microseconds($1)
        }
        bound("bodies-at-once", \.partition.bodiesAtOnce, from: 1, to: 64)
        bound("body-bytes-at-once", \.partition.bodyBytesAtOnce, from: 1, to: 20_000)
        bound("repair-slice", \.partition.repairSliceMembers, from: 1, to: 64)
        bound("repair-interval-ms", \.partition.repairInterval, from: 1)
        bound("listeners-return-ms", \.partition.listenersReturn, from: 2000, to: 20_000)
        bound("device-days", \.partition.deviceDaysMax, from: 30)
        bound("swept-share", \.partition.sweptShare, from: 1)
    }

    private mutating func drawDeliveries() {
        let plain = DeliveryLimits()
        bound("waiting-max", \.partition.delivery.waitingMax, from: 1)
        bound("collapsible-max", \.partition.delivery.collapsibleMax, from: 1)
        bound("pass-depth", \.partition.delivery.passDepth, from: 1)
        // Beyond these two, so that a listening device's messages pass before the partition drops them.
        bound("waiting-beyond", UInt64(plain.waitingHardMax - plain.waitingMax - plain.passDepth), from: 0) {
            $0.partition.delivery.waitingHardMax =
                $0.partition.delivery.waitingMax + $0.partition.delivery.passDepth + UInt16($1)
        }
        bound("topics-max", \.partition.delivery.topicsPerDeviceMax, from: 1)
    }

    private mutating func drawQuotas() {
        let plain = QuotaBounds()
        bound("accounts", \.quotas.accountCountMax, from: 4)
        bound("pending-requests", \.quotas.pendingCountMax, from: 1)
        // Beyond the requests that a spender has without an answer.
        bound("grants-beyond", UInt64(plain.flightCountMax - plain.pendingCountMax), from: 0) {
            $0.quotas.flightCountMax = $0.quotas.pendingCountMax + Int($1)
        }
        bound("share-divisor", \.quotas.shareDivisor, from: 1, to: 64)
        bound("lease-divisor", \.quotas.leaseDivisor, from: 1, to: 64)
        bound("share-min", \.quotas.shareMin, from: 1, to: 1000)
        bound("spender-projects", \.quotas.projectCountMax, from: 1)
        bound("limiter-devices", 1024, from: 16) { options, count in
            options.limiter = DeviceLimiter(countMax: Int(count))
        }
        let limits = QuotaLimits()
        bound("device-minute", \.limits.devicePerMinute, from: 1)
        bound("device-hour", \.limits.devicePerHour, from: 1)
        bound("project-devices", \.limits.devices, from: 1)
        bound("registrations", limits.registrations.count, from: 1) {
            $0.limits.registrations = QuotaRate(count: $1, burst: $1)
        }
    }

    /// The lengths of quotas.
    private mutating func drawLeases() {
        let plain = QuotaBounds()
        bound("quota-lease-ms", \.quotas.lease, from: 5, to: 500)
        // In thousandths of a lease.
        bound("quota-cover", plain.leaseCover * 1000 / plain.lease, from: 1, to: 1000) {
            $0.quotas.leaseCover = max(.nanoseconds(1), $0.quotas.lease / 1000 * $1)
        }
        // Beyond the length of a lease.
        bound("quota-share-ms", (plain.share - plain.lease).milliseconds, from: 0, to: 3000) {
            $0.quotas.share = $0.quotas.lease + .milliseconds($1)
        }
        bound("quota-inflow-ms", \.quotas.inflow, from: 0, to: 500)
        bound("quota-retry-us", plain.retryMin.microseconds, from: 100, to: 50_000) {
            $0.quotas.retryMin = .microseconds($1)
        }
        // Beyond the earliest retry.
        bound("quota-retry-span-ms", (plain.retryMax - plain.retryMin).milliseconds, from: 0, to: 500) {
            $0.quotas.retryMax = $0.quotas.retryMin + .milliseconds($1)
        }
        bound("quota-tick-ms", \.quotas.tick, from: 1, to: 200)
        bound("quota-patience-ms", \.quotas.patience, from: 1, to: 500)
        // Beyond the patience of a spender that has a share.
        let span = (plain.patienceWithoutShare - plain.patience).milliseconds
        bound("shareless-ms", span, from: 500, to: 10_000) {
            $0.quotas.patienceWithoutShare = $0.quotas.patience + .milliseconds($1)
        }
    }

    private mutating func drawOwnership() {
        let plain = Ownership.Options()
        bound("poll-ms", \.ownership.pollInterval, from: 200, to: 1000)
        // In polls. Commits may differ by `writeMax`, and a lease is longer than that.
        bound("lease-polls", plain.lease / plain.pollInterval, from: 3, to: 5) {
            let slow = $0.ownership.pollInterval + 2 * $0.writeMax + .milliseconds(200)
            $0.ownership.lease = max($0.ownership.pollInterval * $1, slow)
        }
        bound("leases-alone", \.ownership.leasesWithoutGossip, from: 2, to: 4)
        bound("stability-ms", \.ownership.stability, from: 0, to: 6000)
        bound("takes-at-once", \.ownership.takesAtOnce, from: 1)
        bound("releases-at-once", \.ownership.releasesAtOnce, from: 1)
        bound("following-ms", \.ownership.followingMax, from: 1, to: 6000)
        bound("follows-at-once", \.ownership.followsAtOnce, from: 1)
        // Beyond the time for which the partition's owner waits for the heir.
        let kept = (plain.followedFor - plain.followingMax).milliseconds
        bound("followed-ms", kept, from: 0) {
            $0.ownership.followedFor = $0.ownership.followingMax + .milliseconds($1)
        }
        bound("tables-ms", 500, from: 10, to: 2000) { $0.tablePatience = .milliseconds($1) }
        bound("looks-missed", 3, from: 1, to: 6) { $0.looksMissed = $1 }
    }

    private mutating func drawMembership() {
        let plain = Membership.Options()
        bound("probe-ms", \.membership.probeInterval, from: 50, to: 1000)
        // In thousandths of the time between two probes.
        bound("ack", plain.ackTimeout * 1000 / plain.probeInterval, from: 50, to: 1000) {
            $0.membership.ackTimeout = $0.membership.probeInterval / 1000 * $1
        }
        bound("helpers", \.membership.relays, from: 0, to: 6)
        // Beyond the time between two probes.
        let suspicion = (plain.suspicionMin - plain.probeInterval).milliseconds
        bound("suspicion-ms", suspicion, from: 0, to: 3000) {
            $0.membership.suspicionMin = $0.membership.probeInterval + .milliseconds($1)
        }
        let alone = (plain.suspicionMax - plain.suspicionMin).milliseconds
        bound("suspicion-alone-ms", alone, from: 0, to: 8000) {
            $0.membership.suspicionMax = $0.membership.suspicionMin + .milliseconds($1)
        }
        bound("confirmations", \.membership.confirmations, from: 0, to: 6)
        let isolation = (plain.isolation - 2 * plain.probeInterval).milliseconds
        bound("isolation-ms", isolation, from: 200, to: 5000) {
            $0.membership.isolation = 2 * $0.membership.probeInterval + .milliseconds($1)
        }
        bound("healing-ms", \.membership.healingInterval, from: 50, to: 5000)
        bound("sync-ms", \.membership.syncInterval, from: 500)
        bound("tellings", \.membership.retransmitFactor, from: 1, to: 6)
        drawGossipBounds(plain)
        add("replayed-datagrams", 0, value: rate()) { $0.replayedPerMille = $1 }
    }

    private mutating func drawGossipBounds(_ plain: Membership.Options) {
        bound("packet-bytes", \.membership.packetBytesMax, from: 300)
        bound("sync-bytes", \.membership.syncBytesMax, from: 8192)
        bound("dead-for-ms", \.membership.deadRetention, from: 1000)
        bound("members-max", \.membership.membersMax, from: 32)
        bound("entries-max", \.membership.entriesMax, from: 1)
        bound("relays-max", \.membership.relaysMax, from: 1)
        bound("seed-questions", \.membership.seedQuestionsMax, from: 1)
        bound("health-max", \.membership.healthMax, from: 0)
        bound("doubts-ms", \.membership.doubtsMin, from: 100)
        // Beyond the first doubt's length.
        bound("doubts-beyond-ms", (plain.doubtsMax - plain.doubtsMin).milliseconds, from: 0) {
            $0.membership.doubtsMax = $0.membership.doubtsMin + .milliseconds($1)
        }
    }
}
