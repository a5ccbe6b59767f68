import Model
import Testing

@testable import Quotas

@Suite("The limits of a device") struct DeviceLimiterTests {
    let partition = PartitionID(3)

    @Test("a device gets 240 a minute and 5,000 an hour, each by its own bucket")
    func defaults() {
        var limiter = DeviceLimiter()
        var now = at(.seconds(10))
        let device = DeviceIndex(1)
        for _ in 0..<240 { expect(limiter.take(partition, device, within: .standard, now: now) == nil) }
        let refusal = limiter.take(partition, device, within: .standard, now: now)
        expect(refusal == QuotaRefusal(kind: .deviceMinute, limit: 240, retryDelay: .milliseconds(250)))
        expect(limiter.take(partition, DeviceIndex(2), within: .standard, now: now) == nil)
        expect(limiter.take(PartitionID(4), device, within: .standard, now: now) == nil)
        now = now.advanced(by: .milliseconds(250))
        expect(limiter.take(partition, device, within: .standard, now: now) == nil)
        expect(limiter.take(partition, device, within: .standard, now: now) != nil)
        var sent = 241
        for _ in 0..<200_000 {
            now = now.advanced(by: .milliseconds(250))
            guard let refusal = limiter.take(partition, device, within: .standard, now: now) else {
                sent += 1
                continue
            }
            expect(refusal.kind == .deviceHour && refusal.limit == 5_000)
            expect(refusal.retryDelay <= .milliseconds(720))
            break
        }
        // The device takes 4 tokens a second and gets 5,000 / 3,600 back: after 5,000 / (4 − 1.389) × 4 ≈
        // 7,600 sends the bucket is empty.
        expect((7_300...7_700).contains(sent), "\(sent)")
    }

    @Test(
        "each device is limited exactly, whatever happens to others; those that are full again are forgotten")
    func twin() {
        var random = SeededGenerator(seed: 21)
        var limiter = DeviceLimiter(countMax: 1 << 12)
        let small = QuotaLimits(devicePerMinute: 7, devicePerHour: 31)
        let large = QuotaLimits(devicePerMinute: 1_000, devicePerHour: 2_000)
        var twins: [Int: (DumbBucket, DumbBucket)] = [:]
        var now: UInt64 = 1
        for step in 0..<60_000 {
            now += UInt64.random(in: 0...400_000_000, using: &random)
            let device = Int.random(in: 0..<300, using: &random) * (step % 5 == 0 ? 1 : 0)
            let limits = device % 2 == 0 ? small : large
            var twin =
                twins[device]
                ?? (
                    DumbBucket(
                        rate: QuotaRate(
                            count: UInt64(limits.devicePerMinute), perSeconds: 60,
                            burst: UInt64(limits.devicePerMinute))),
                    DumbBucket(
                        rate: QuotaRate(
                            count: UInt64(limits.devicePerHour), perSeconds: 3600,
                            burst: UInt64(limits.devicePerHour)))
                )
            let free = twin.0.free(now) >= 60_000_000_000 && twin.1.free(now) >= 3_600_000_000_000
            let refusal = limiter.take(partition, DeviceIndex(UInt32(device)), within: limits, now: at(now))
            expect((refusal == nil) == free, "seed 21 step \(step)")
            if refusal == nil {
                expect(twin.0.take(1, now))
                expect(twin.1.take(1, now))
                // Both buckets are full again after an hour, so tokens that were taken hours ago count no
                // more.
                twin.0.taken.removeAll { $0.at + 7_200_000_000_000 < now }
                twin.1.taken.removeAll { $0.at + 14_400_000_000_000 < now }
                twins[device] = twin
            }
        }
        for step in 0..<2_000 {
            now += TimeSpan.seconds(3600).nanoseconds
            let other = DeviceIndex(UInt32(1_000_000 + step % 3))
            _ = limiter.take(partition, other, within: small, now: at(now))
        }
        expect(limiter.count <= 3)
    }

    @Test(
        "the table is bounded: with more busy devices than it holds, some are forgotten and none is refused for it"
    )
    func bounded() {
        var limiter = DeviceLimiter(countMax: 64)
        for round in 0..<3 {
            for device in 0..<1_000 as Range<UInt32> {
                expect(
                    limiter.take(
                        partition, DeviceIndex(device), within: .standard, now: at(UInt64(round) + 1)) == nil
                )
            }
        }
        expect(limiter.count == 64)
    }

    @Test("a limit of nothing refuses everything and keeps no entry")
    func nothing() {
        var limiter = DeviceLimiter()
        let limits = QuotaLimits(devicePerMinute: 0, devicePerHour: 0)
        expect(limiter.take(partition, DeviceIndex(0), within: limits, now: at(0))?.kind == .deviceMinute)
        expect(limiter.count == 0)
    }
}
