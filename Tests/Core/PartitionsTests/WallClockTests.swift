import Model
import Testing

@testable import Partitions

/// A wall clock may show anything. A partition lets it decide about devices and messages only while it goes
/// with the monotonic clock, which cannot be set (rule: wall-time-is-a-witness).
@Suite("A wall clock that is wrong")
struct WallClockTests {
    private let harness = PartitionHarness(count: 1)
    private static let day: Int64 = 86_400

    private func leap(_ harness: PartitionHarness, days: Int64) {
        harness.now.wall = WallTime(
            milliseconds: harness.now.wall.milliseconds + days * WallClockTests.day * 1000)
    }

    @Test("for a minute ends no device and no message", arguments: [271, -20_833, 3650] as [Int64])
    func leap(days: Int64) throws {
        let (device, credential) = try #require(harness.register(in: 0))
        let (away, _) = try #require(harness.register(in: 0))
        harness.settle()
        _ = harness.request(.sendToDevice(nil, away, harness.envelope("m1", ttl: 86_400)), of: PartitionID(0))
        let two = harness.envelope("m2", ttl: 86_400)
        leap(harness, days: days)
        for _ in 0..<6 { harness.pass(seconds: 10) }
        // The partition dates streams and messages of this minute as if nothing had happened.
        harness.listen(device, credential, stream: 1)
        _ = harness.request(.sendToDevice(nil, away, two), of: PartitionID(0))
        #expect(harness.takeEvents() == ["attached"])
        #expect(harness.waitingCount(0, away.index.rawValue) == 2)
        leap(harness, days: -days)
        harness.pass(seconds: 10)
        guard harness.notices.count == 2, case .clockLeapt(let ahead) = harness.notices[0] else {
            Issue.record("\(harness.notices)")
            return
        }
        #expect(abs(ahead - days * 86_400_000) < 60_000 && harness.notices[1] == .clockAgrees)
        harness.send(
            .stream(.detach(StreamID(gateway: PartitionHarness.gateway, number: 1), device.index)),
            to: PartitionID(0))
        for _ in 0..<8 { harness.pass(seconds: WallClockTests.day / 8 * 2) }
        #expect(harness.partitions[0].deviceCount == 2)
        // More than the messages' time to live, one day, is over now.
        #expect(harness.waitingCount(0, away.index.rawValue) == 0)
    }

    @Test("for a minute does not keep devices that come from what waits for them")
    func waiting() throws {
        let (device, credential) = try #require(harness.register(in: 0))
        harness.settle()
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m1")), of: PartitionID(0))
        leap(harness, days: 271)
        harness.pass(seconds: 10)
        harness.listen(device, credential, stream: 1)
        #expect(harness.takeEvents() == ["attached", "m1"])
    }

    @Test("days that really pass end a device that nobody saw")
    func unseen() throws {
        _ = try #require(harness.register(in: 0))
        for _ in 0..<(269 * 4) { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 1)
        #expect(harness.notices.isEmpty)
        for _ in 0..<(4 * 4) { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 0 && harness.notices == [.deviceEnds(.unseen)])
    }

    @Test("a device that listens for a year is not unseen, also not for a new owner or when it hangs up")
    func listening() throws {
        let (first, one) = try #require(harness.register(in: 0))
        let (second, other) = try #require(harness.register(in: 0))
        harness.listen(first, one, stream: 1)
        harness.listen(second, other, stream: 2)
        for _ in 0..<(365 * 4) { harness.pass(seconds: WallClockTests.day / 4) }
        harness.send(
            .stream(.detach(StreamID(gateway: PartitionHarness.gateway, number: 1), first.index)),
            to: PartitionID(0))
        harness.settle()
        for _ in 0..<8 { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 2)
        try harness.succeed(0)
        for _ in 0..<8 { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 2)
    }

    @Test("a device whose topic's partition is away, with no room for more, keeps no other one")
    func awayTopic() throws {
        let harness = PartitionHarness(count: 2) { $0.outboxBytesMax = 1 }
        let topic = try #require((0..<64).map { "t\($0)" }.first { harness.home($0) == PartitionID(1) })
        let (first, _) = try #require(harness.register(in: 0))
        let (_, _) = try #require(harness.register(in: 0))
        #expect(harness.change(.subscribe, topic, [first]) != nil)
        harness.settle()
        let (last, _) = try #require(harness.register(in: 0))
        harness.away = [PartitionID(1)]
        // The topic does not answer, so the subscription waits in the outbox and fills it.
        _ = harness.change(.subscribe, topic, [last])
        for _ in 0..<(274 * 4) { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 2)
        harness.away = []
        for _ in 0..<8 { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 0)
    }

    @Test("not more than a bound of devices ends in a day, and in slices that fit into records")
    func pace() throws {
        for number in 0..<2500 { #expect(harness.register(in: 0) != nil, "\(number)") }
        for _ in 0..<(269 * 2) { harness.pass(seconds: WallClockTests.day / 2) }
        #expect(harness.partitions[0].deviceCount == 2500)
        while harness.partitions[0].deviceCount == 2500 { harness.pass(seconds: WallClockTests.day / 24) }
        for _ in 0..<4 { harness.pass(seconds: 60) }
        #expect(harness.partitions[0].deviceCount == 2500 - 2500 / 64)
        for _ in 0..<16 { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount > 2500 * 9 / 10)
    }

    /// A copy is restored, a server was off, or the clock was wrong before: nobody knows which.
    @Test(
        "that is right after a rest ends nobody, also a new owner's, until 270 days have passed since",
        arguments: [8, 300, 20_000], [false, true])
    func rest(days: Int64, isConfirmed: Bool) throws {
        let harness = PartitionHarness(count: 1) { $0.unreachableMax = .seconds(7 * 86_400) }
        let (device, _) = try #require(harness.register(in: 0))
        _ = harness.request(.setTransport(device, by: .backend, PushTests.web), of: PartitionID(0))
        for _ in 0..<8 { _ = try #require(harness.register(in: 0)) }
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m1")), of: PartitionID(0))
        try PushTests.answer(harness, .gone)
        harness.settle()
        let witness = harness.now.wall
        leap(harness, days: days)
        // Without a witness the first reading is believed.
        try harness.succeed(0, clock: TrustedClock(harness.now, witness: isConfirmed ? witness : nil))
        // A device that comes meanwhile is dated by the believed time.
        let (_, _) = try #require(harness.register(in: 0))
        for _ in 0..<25 { harness.pass(seconds: 3600) }
        #expect(harness.partitions[0].clock.isTrusted)
        for _ in 0..<12 { harness.pass(seconds: WallClockTests.day / 2 - 3600) }
        #expect(harness.partitions[0].deviceCount == 10)
        // The next owner has a clock that nothing contradicts.
        try harness.succeed(0)
        for _ in 0..<4 { harness.pass(seconds: WallClockTests.day / 2) }
        // The address is gone since a week.
        #expect(harness.partitions[0].deviceCount == 9)
        #expect(harness.notices.last == .deviceEnds(.unreachable))
        for _ in 0..<(258 * 2) { harness.pass(seconds: WallClockTests.day / 2) }
        #expect(harness.partitions[0].deviceCount == 9)
        for _ in 0..<(16 * 2) { harness.pass(seconds: WallClockTests.day / 2) }
        #expect(harness.partitions[0].deviceCount < 9)
    }

    @Test("for a moment, with one message, ends nobody when the clock is right again")
    func poisoned() throws {
        let (device, _) = try #require(harness.register(in: 0))
        harness.settle()
        // A process that begins with a wrong clock, and has no witness, believes it.
        leap(harness, days: 300)
        try harness.succeed(0)
        _ = harness.request(.sendToDevice(nil, device, harness.envelope("m1")), of: PartitionID(0))
        leap(harness, days: -300)
        try harness.succeed(0)
        for _ in 0..<40 { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 1)
    }

    @Test("that was ahead for a time keeps no device for as long")
    func ahead() throws {
        _ = try #require(harness.register(in: 0))
        harness.settle()
        leap(harness, days: 300)
        try harness.succeed(0)
        // This device is dated by the wrong clock, and begins a day of the partition.
        _ = try #require(harness.register(in: 0))
        harness.settle()
        leap(harness, days: -300)
        try harness.succeed(0)
        for _ in 0..<(268 * 2) { harness.pass(seconds: WallClockTests.day / 2) }
        #expect(harness.partitions[0].deviceCount == 2)
        for _ in 0..<(8 * 2) { harness.pass(seconds: WallClockTests.day / 2) }
        #expect(harness.partitions[0].deviceCount == 1)
    }

    @Test(
        "is unconfirmed where the last run contradicts it, and ends nobody meanwhile",
        arguments: [300, -9_000])
    func witness(days: Int64) throws {
        let (device, _) = try #require(harness.register(in: 0))
        harness.settle()
        _ = harness.request(
            .sendToDevice(nil, device, harness.envelope("m1", ttl: 3 * 86_400)), of: PartitionID(0))
        let witness = harness.now.wall
        leap(harness, days: days)
        try harness.succeed(0, clock: TrustedClock(harness.now, witness: witness))
        for _ in 0..<22 { harness.pass(seconds: 3600) }
        #expect(harness.partitions[0].deviceCount == 1 && harness.waitingCount(0, 0) == 1)
        // A time server answers: the clock is near the last run.
        leap(harness, days: -days)
        harness.pass(seconds: 60)
        #expect(harness.partitions[0].clock.isTrusted)
        for _ in 0..<12 { harness.pass(seconds: WallClockTests.day / 4) }
        #expect(harness.partitions[0].deviceCount == 1 && harness.waitingCount(0, 0) == 0)
    }

    private let began = Instant(
        monotonic: MonotonicTime(.seconds(1)), wall: WallTime(milliseconds: 1_800_000_000_000))

    private func at(_ seconds: Int64, days: Int64 = 300) -> Instant {
        let wall = began.wall.milliseconds + (days * WallClockTests.day + seconds) * 1000
        return Instant(
            monotonic: began.monotonic.advanced(by: .seconds(UInt64(seconds))),
            wall: WallTime(milliseconds: wall))
    }

    @Test("is believed after a day in which it ran evenly, and not before")
    func confirmed() {
        var clock = TrustedClock(at(0), witness: began.wall)
        #expect(clock.isUnconfirmed && clock.read(at(0)) == began.wall)
        #expect(clock.read(at(86_399)).milliseconds == began.wall.milliseconds + 86_399_000)
        #expect(!clock.isTrusted)
        #expect(clock.read(at(86_400)) == at(86_400).wall && clock.isTrusted && !clock.isUnconfirmed)
        // The witness may be the wrong one: the time that is confirmed goes on, and does not wait for it.
        clock = TrustedClock(at(0, days: -300), witness: began.wall)
        _ = clock.read(at(43_200, days: -300))
        #expect(clock.read(at(86_400, days: -300)) == at(86_400, days: -300).wall && clock.isTrusted)
        #expect(clock.read(at(86_500, days: -300)) == at(86_500, days: -300).wall)
        // A leap begins the time again.
        clock = TrustedClock(at(0), witness: began.wall)
        _ = clock.read(at(50_000, days: 400))
        _ = clock.read(at(86_400, days: 400))
        #expect(!clock.isTrusted)
        _ = clock.read(at(136_400, days: 400))
        #expect(clock.isTrusted)
        for (days, isNear) in [(7, true), (8, false), (-1, true), (-2, false)] as [(Int64, Bool)] {
            #expect(TrustedClock(at(0, days: days), witness: began.wall).isTrusted == isNear)
        }
        #expect(TrustedClock(at(0)).isTrusted)
    }

    @Test("is believed after a leap if it runs evenly for a day, also if it falls", arguments: [300, -2, 1])
    func leaptEvenly(days: Int64) {
        var clock = TrustedClock(at(0, days: 0))
        #expect(clock.read(at(10, days: days)).milliseconds == began.wall.milliseconds + 10_000)
        #expect(!clock.isTrusted && !clock.isUnconfirmed)
        #expect(clock.read(at(86_409, days: days)).milliseconds == began.wall.milliseconds + 86_409_000)
        #expect(clock.read(at(86_410, days: days)) == at(86_410, days: days).wall && clock.isTrusted)
        // Another leap begins the day again.
        clock = TrustedClock(at(0, days: 0))
        _ = clock.read(at(10, days: days))
        _ = clock.read(at(50_000, days: 2 * days))
        _ = clock.read(at(86_410, days: 2 * days))
        #expect(!clock.isTrusted)
        // Another clock contradicts.
        clock.contradict()
        _ = clock.read(at(100_000, days: 2 * days))
        clock.contradict()
        _ = clock.read(at(180_000, days: 2 * days))
        #expect(!clock.isTrusted)
        // The clocks agree again, and a later leap has a day of its own.
        _ = clock.read(at(186_500, days: 0))
        #expect(clock.isTrusted)
        _ = clock.read(at(186_510, days: days))
        _ = clock.read(at(186_520, days: days))
        #expect(!clock.isTrusted)
    }

    @Test("is doubted if it is wrong by an hour, and not in turns at the bound", arguments: [1, -1])
    func hour(sign: Int64) {
        func at(_ seconds: Int64, ahead: Int64) -> Instant {
            Instant(
                monotonic: began.monotonic.advanced(by: .seconds(UInt64(seconds))),
                wall: WallTime(milliseconds: began.wall.milliseconds + (seconds + ahead) * 1000))
        }
        var clock = TrustedClock(began)
        _ = clock.read(at(5, ahead: sign * 3600))
        #expect(!clock.isTrusted)
        var changes = 0
        for second in 6..<200 as Range<Int64> {
            let was = clock.isTrusted
            let most = Int64(TrustedClock.leapMax.milliseconds / 1000)
            _ = clock.read(at(second, ahead: sign * (most + (second % 2 == 0 ? 1 : -1))))
            changes += was == clock.isTrusted ? 0 : 1
        }
        #expect(changes == 0)
        _ = clock.read(at(200, ahead: sign * 600))
        #expect(clock.isTrusted)
    }

    /// The clocks of a node and of its database may be wrong together: all containers of a machine share one.
    @Test("is believed immediately if another clock vouches for a near time, and after a day for a far one")
    func vouched() {
        for (days, isNear) in [(6, true), (8, false), (300, false), (-300, false)] as [(Int64, Bool)] {
            var clock = TrustedClock(began)
            _ = clock.read(at(5, days: days))
            #expect(!clock.isTrusted && !clock.isUnconfirmed)
            clock.vouch(for: at(10, days: days))
            #expect(clock.isTrusted == isNear && clock.isUnconfirmed != isNear)
            guard !isNear else { continue }
            // The other clock says so again and again.
            for hour in 1...23 as ClosedRange<Int64> {
                clock.vouch(for: at(3600 * hour, days: days))
                #expect(
                    clock.read(at(3600 * hour, days: days)).milliseconds
                        == began.wall.milliseconds + 3_600_000 * hour)
            }
            #expect(clock.read(at(86_420, days: days)) == at(86_420, days: days).wall && clock.isTrusted)
        }
        var clock = TrustedClock(at(0, days: 300), witness: began.wall)
        clock.vouch(for: at(5, days: 300))
        #expect(clock.isUnconfirmed)
        clock.vouch(for: at(6, days: 3))
        #expect(clock.isTrusted && clock.read(at(7, days: 3)) == at(7, days: 3).wall)
    }
}
