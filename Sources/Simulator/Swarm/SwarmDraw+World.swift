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

    /// Half of the bounds stay at their defaults, so that a run meets each small one by itself.
    private mutating func bound(
        _ name: String, _ plain: UInt64, from: UInt64, to: UInt64? = nil,
        apply: @escaping @Sendable (inout Options, UInt64) -> Void
    ) {
        let value = roll(2) == 0 ? magnitude(from, to ?? plain) : plain
        add(name, plain, value: value, apply: apply)
    }

    private mutating func drawBodies() {
        let plain = Options(seed: seed).partition
        bound("snapshot-slice-bytes", UInt64(plain.snapshotSliceBytes), from: 1, to: 20_000) {
            $0.partition.snapshotSliceBytes = Int($1)
        }
        bound("snapshot-part-bytes", UInt64(plain.snapshotPartBytes), from: 20, to: 20_000) {
            $0.partition.snapshotPartBytes = Int($1)
        }
        bound("snapshot-pause-us", plain.snapshotPause.microseconds, from: 0, to: 100_000) {
            $0.partition.snapshotPause = .microseconds($1)
        }
        bound("bodies-at-once", UInt64(plain.bodiesAtOnce), from: 1, to: 64) {
            $0.partition.bodiesAtOnce = Int($1)
        }
        bound("body-bytes-at-once", UInt64(plain.bodyBytesAtOnce), from: 1, to: 20_000) {
            $0.partition.bodyBytesAtOnce = Int($1)
        }
        bound("repair-slice", UInt64(plain.repairSliceMembers), from: 1, to: 64) {
            $0.partition.repairSliceMembers = Int($1)
        }
        bound("repair-interval-ms", plain.repairInterval.milliseconds, from: 1) {
            $0.partition.repairInterval = .milliseconds($1)
        }
        bound("listeners-return-ms", plain.listenersReturn.milliseconds, from: 2000, to: 20_000) {
            $0.partition.listenersReturn = .milliseconds($1)
        }
        bound("device-days", UInt64(plain.deviceDaysMax), from: 30) {
            $0.partition.deviceDaysMax = UInt16($1)
        }
        bound("swept-share", UInt64(plain.sweptShare), from: 1) { $0.partition.sweptShare = Int($1) }
    }

    private mutating func drawDeliveries() {
        let plain = DeliveryLimits()
        bound("waiting-max", UInt64(plain.waitingMax), from: 1) {
            $0.partition.delivery.waitingMax = UInt16($1)
        }
        bound("collapsible-max", UInt64(plain.collapsibleMax), from: 1) {
            $0.partition.delivery.collapsibleMax = UInt8($1)
        }
        bound("pass-depth", UInt64(plain.passDepth), from: 1) {
            $0.partition.delivery.passDepth = UInt16($1)
        }
        // Beyond these two, so that a listening device's messages pass before the partition drops them.
        bound("waiting-beyond", UInt64(plain.waitingHardMax - plain.waitingMax - plain.passDepth), from: 0) {
            $0.partition.delivery.waitingHardMax =
                $0.partition.delivery.waitingMax + $0.partition.delivery.passDepth + UInt16($1)
        }
        bound("topics-max", UInt64(plain.topicsPerDeviceMax), from: 1) {
            $0.partition.delivery.topicsPerDeviceMax = Int($1)
        }
    }

    private mutating func drawQuotas() {
        let plain = QuotaBounds()
        bound("accounts", UInt64(plain.accountCountMax), from: 4) { $0.quotas.accountCountMax = Int($1) }
        bound("pending-requests", UInt64(plain.pendingCountMax), from: 1) {
            $0.quotas.pendingCountMax = Int($1)
        }
        // Beyond the requests that a spender has without an answer.
        bound("grants-beyond", UInt64(plain.flightCountMax - plain.pendingCountMax), from: 0) {
            $0.quotas.flightCountMax = $0.quotas.pendingCountMax + Int($1)
        }
        bound("share-divisor", plain.shareDivisor, from: 1, to: 64) { $0.quotas.shareDivisor = $1 }
        bound("lease-divisor", plain.leaseDivisor, from: 1, to: 64) { $0.quotas.leaseDivisor = $1 }
        bound("share-min", plain.shareMin, from: 1, to: 1000) { $0.quotas.shareMin = $1 }
        bound("spender-projects", UInt64(plain.projectCountMax), from: 1) {
            $0.quotas.projectCountMax = Int($1)
        }
        bound("limiter-devices", 1024, from: 16) { options, count in
            options.limiter = DeviceLimiter(countMax: Int(count))
        }
        let limits = QuotaLimits()
        bound("device-minute", UInt64(limits.devicePerMinute), from: 1) {
            $0.limits.devicePerMinute = UInt32($1)
        }
        bound("device-hour", UInt64(limits.devicePerHour), from: 1) {
            $0.limits.devicePerHour = UInt32($1)
        }
        bound("project-devices", limits.devices, from: 1) { $0.limits.devices = $1 }
        bound("registrations", limits.registrations.count, from: 1) {
            $0.limits.registrations = QuotaRate(count: $1, burst: $1)
        }
    }

    /// The lengths of quotas.
    private mutating func drawLeases() {
        let plain = QuotaBounds()
        bound("quota-lease-ms", plain.lease.milliseconds, from: 5, to: 500) {
            $0.quotas.lease = .milliseconds($1)
        }
        // In thousandths of a lease.
        bound("quota-cover", plain.leaseCover * 1000 / plain.lease, from: 1, to: 1000) {
            $0.quotas.leaseCover = max(.nanoseconds(1), $0.quotas.lease / 1000 * $1)
        }
        // Beyond the length of a lease.
        bound("quota-share-ms", (plain.share - plain.lease).milliseconds, from: 0, to: 3000) {
            $0.quotas.share = $0.quotas.lease + .milliseconds($1)
        }
        bound("quota-inflow-ms", plain.inflow.milliseconds, from: 0, to: 500) {
            $0.quotas.inflow = .milliseconds($1)
        }
        bound("quota-retry-us", plain.retryMin.microseconds, from: 100, to: 50_000) {
            $0.quotas.retryMin = .microseconds($1)
        }
        // Beyond the earliest retry.
        bound("quota-retry-span-ms", (plain.retryMax - plain.retryMin).milliseconds, from: 0, to: 500) {
            $0.quotas.retryMax = $0.quotas.retryMin + .milliseconds($1)
        }
        bound("quota-tick-ms", plain.tick.milliseconds, from: 1, to: 200) {
            $0.quotas.tick = .milliseconds($1)
        }
        bound("quota-patience-ms", plain.patience.milliseconds, from: 1, to: 500) {
            $0.quotas.patience = .milliseconds($1)
        }
        // Beyond the patience of a spender that has a share.
        let span = (plain.patienceWithoutShare - plain.patience).milliseconds
        bound("shareless-ms", span, from: 500, to: 10_000) {
            $0.quotas.patienceWithoutShare = $0.quotas.patience + .milliseconds($1)
        }
    }

    private mutating func drawOwnership() {
        let plain = Ownership.Options()
        bound("poll-ms", plain.pollInterval.milliseconds, from: 200, to: 1000) {
            $0.ownership.pollInterval = .milliseconds($1)
        }
        // In polls. Commits may differ by `writeMax`, and a lease is longer than that.
        bound("lease-polls", plain.lease / plain.pollInterval, from: 3, to: 5) {
            let slow = $0.ownership.pollInterval + 2 * $0.writeMax + .milliseconds(200)
            $0.ownership.lease = max($0.ownership.pollInterval * $1, slow)
        }
        bound("leases-alone", plain.leasesWithoutGossip, from: 2, to: 4) {
            $0.ownership.leasesWithoutGossip = $1
        }
        bound("stability-ms", plain.stability.milliseconds, from: 0, to: 6000) {
            $0.ownership.stability = .milliseconds($1)
        }
        bound("takes-at-once", UInt64(plain.takesAtOnce), from: 1) { $0.ownership.takesAtOnce = Int($1) }
        bound("releases-at-once", UInt64(plain.releasesAtOnce), from: 1) {
            $0.ownership.releasesAtOnce = Int($1)
        }
        bound("following-ms", plain.followingMax.milliseconds, from: 1, to: 6000) {
            $0.ownership.followingMax = .milliseconds($1)
        }
        bound("follows-at-once", UInt64(plain.followsAtOnce), from: 1) {
            $0.ownership.followsAtOnce = Int($1)
        }
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
        bound("probe-ms", plain.probeInterval.milliseconds, from: 50, to: 1000) {
            $0.membership.probeInterval = .milliseconds($1)
        }
        // In thousandths of the time between two probes.
        bound("ack", plain.ackTimeout * 1000 / plain.probeInterval, from: 50, to: 1000) {
            $0.membership.ackTimeout = $0.membership.probeInterval / 1000 * $1
        }
        bound("helpers", UInt64(plain.relays), from: 0, to: 6) { $0.membership.relays = Int($1) }
        // Beyond the time between two probes.
        let suspicion = (plain.suspicionMin - plain.probeInterval).milliseconds
        bound("suspicion-ms", suspicion, from: 0, to: 3000) {
            $0.membership.suspicionMin = $0.membership.probeInterval + .milliseconds($1)
        }
        let alone = (plain.suspicionMax - plain.suspicionMin).milliseconds
        bound("suspicion-alone-ms", alone, from: 0, to: 8000) {
            $0.membership.suspicionMax = $0.membership.suspicionMin + .milliseconds($1)
        }
        bound("confirmations", UInt64(plain.confirmations), from: 0, to: 6) {
            $0.membership.confirmations = Int($1)
        }
        let isolation = (plain.isolation - 2 * plain.probeInterval).milliseconds
        bound("isolation-ms", isolation, from: 200, to: 5000) {
            $0.membership.isolation = 2 * $0.membership.probeInterval + .milliseconds($1)
        }
        bound("healing-ms", plain.healingInterval.milliseconds, from: 50, to: 5000) {
            $0.membership.healingInterval = .milliseconds($1)
        }
        bound("sync-ms", plain.syncInterval.milliseconds, from: 500) {
            $0.membership.syncInterval = .milliseconds($1)
        }
        bound("tellings", UInt64(plain.retransmitFactor), from: 1, to: 6) {
            $0.membership.retransmitFactor = Int($1)
        }
        drawGossipBounds(plain)
        add("replayed-datagrams", 0, value: rate()) { $0.replayedPerMille = $1 }
    }

    private mutating func drawGossipBounds(_ plain: Membership.Options) {
        bound("packet-bytes", UInt64(plain.packetBytesMax), from: 300) {
            $0.membership.packetBytesMax = Int($1)
        }
        bound("sync-bytes", UInt64(plain.syncBytesMax), from: 8192) { $0.membership.syncBytesMax = Int($1) }
        bound("dead-for-ms", plain.deadRetention.milliseconds, from: 1000) {
            $0.membership.deadRetention = .milliseconds($1)
        }
        bound("members-max", UInt64(plain.membersMax), from: 32) { $0.membership.membersMax = Int($1) }
        bound("entries-max", UInt64(plain.entriesMax), from: 1) { $0.membership.entriesMax = Int($1) }
        bound("relays-max", UInt64(plain.relaysMax), from: 1) { $0.membership.relaysMax = Int($1) }
        bound("seed-questions", UInt64(plain.seedQuestionsMax), from: 1) {
            $0.membership.seedQuestionsMax = Int($1)
        }
        bound("health-max", UInt64(plain.healthMax), from: 0) { $0.membership.healthMax = Int($1) }
        bound("doubts-ms", plain.doubtsMin.milliseconds, from: 100) {
            $0.membership.doubtsMin = .milliseconds($1)
        }
        // Beyond the first doubt's length.
        bound("doubts-beyond-ms", (plain.doubtsMax - plain.doubtsMin).milliseconds, from: 0) {
            $0.membership.doubtsMax = $0.membership.doubtsMin + .milliseconds($1)
        }
    }
}
