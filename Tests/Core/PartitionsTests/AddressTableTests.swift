import Model
import Testing

@testable import Partitions

@Suite("A partition's addresses")
struct AddressTableTests {
    private var random = SeededGenerator(seed: 5)

    private mutating func address(_ kind: Transport.Kind, _ bytes: Int) -> StoredTransport {
        StoredTransport(
            transport: Transport(
                kind: kind, address: (0..<bytes).map { _ in UInt8.random(in: 0...255, using: &random) }),
            registered: WallTime(milliseconds: Int64.random(in: -9...1_800_000_000_000, using: &random)),
            generation: UInt64.random(in: 0...300, using: &random))
    }

    private mutating func list() -> [StoredTransport] {
        Transport.Kind.allCases.filter { _ in Bool.random(using: &random) }.map { kind in
            address(kind, [0, 1, 90, 300, 2560].randomElement(using: &random) ?? 0)
        }
    }

    @Test("are those that were stored, as a dictionary has them", arguments: [4, 70, 3000] as [UInt32])
    mutating func twin(indices: UInt32) {
        var table = AddressTable()
        var twin: [UInt32: [StoredTransport]] = [:]
        for step in 0..<1500 {
            let index = UInt32.random(in: 0..<indices, using: &random)
            let list = list()
            table[index] = list.isEmpty ? nil : list
            twin[index] = list.isEmpty ? nil : list
            for asked in [index, UInt32.random(in: 0..<indices, using: &random), index ^ 1] {
                #expect(table[asked] == twin[asked])
            }
            guard step % 100 == 0 else { continue }
            #expect(table.brokenInvariant == nil && table.count == twin.count)
            #expect(table.indices == twin.keys.sorted())
            #expect(
                table.all.map { AddressRow(index: $0.index, list: $0.list) }
                    == twin.sorted { $0.key < $1.key }.map { AddressRow(index: $0.key, list: $0.value) })
        }
        var same = AddressTable()
        for (index, list) in twin.sorted(by: { $0.key > $1.key }) { same[index] = list }
        #expect(same == table)
        if let first = twin.keys.min() { same[first]?[0].generation += 1 }
        #expect(same != table)
        for index in twin.keys.sorted() { table[index] = nil }
        #expect(table.isEmpty && table.indices.isEmpty && table == AddressTable())
    }

    @Test("of one service share what is the same in them")
    mutating func shared() {
        let rows = (0..<32).map { index in
            let text = (0..<118).map { _ in UInt8.random(in: 0...255, using: &random) }
            let tail = String(decoding: Base64URL.encode(text), as: UTF8.self)
            let web = WebAddress(
                keyID: 7, p256dh: [4] + (0..<64).map { _ in UInt8.random(in: 0...255, using: &random) },
                auth: (0..<16).map { _ in UInt8.random(in: 0...255, using: &random) },
                endpoint: "https://fcm.googleapis.com/fcm/send/" + tail)
            var stored = address(.web, 0)
            stored.transport.address = web.packed
            return AddressRow(index: UInt32(64 + index), list: [stored])
        }
        let page = AddressPage(rows)
        #expect(page.rows == rows)
        // p256dh, auth and the endpoint's last part are 198 bytes of chance.
        #expect(page.bytesCount < 32 * 222, "\(page.bytesCount) bytes")
        #expect(page.bytesCount >= 32 * 198)
    }
}

@Suite("What is kept of pushes")
struct RecentAttemptsTests {
    private func entry(_ time: Int64) -> RecentAttempts.Entry {
        RecentAttempts.Entry(
            kind: .web,
            attempt: PushHistory.Attempt(
                message: nil, time: WallTime(milliseconds: time), outcome: .gone, tries: 0))
    }

    @Test("is the newest attempt of each device, and of so many devices")
    func bounded() {
        var kept = RecentAttempts()
        for time in 0..<10 { kept.note(entry(Int64(time)), of: UInt32(time / 2), devicesMax: 3) }
        #expect((0..<5).map { kept[$0]?.attempt.time.milliseconds } == [nil, nil, 5, 7, 9])
        kept.note(entry(20), of: 2, devicesMax: 3)
        kept.note(entry(21), of: 8, devicesMax: 3)
        #expect(kept[2] == nil && kept[8]?.attempt.time.milliseconds == 21 && kept.table.count == 3)
        #expect(kept.brokenInvariant(devicesMax: 3) == nil)
        #expect(kept.brokenInvariant(devicesMax: 2) == "more attempts of pushes are kept than may be")
    }

    @Test("says what the owner does and what the service said, and a device without news says nothing")
    func history() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        func history() throws -> [PushHistory] {
            let reply = harness.request(.device(device, by: .backend), of: device.partition)
            guard case .device(_, _, let pushes) = try #require(reply) else { return [] }
            return pushes
        }
        #expect(try history() == [])
        harness.publish("a", to: "news")
        #expect(try history() == [PushHistory(kind: .web, activity: .sending)])
        let (partition, job) = try #require(harness.jobs.last)
        let refused = PushOutcome.refusedContent("too long")
        harness.send(.pushed(PushReport(number: job.number, .done, outcome: refused)), to: partition)
        let failed = try #require(try history().first)
        #expect(failed.activity == .idle && failed.accepted == nil)
        #expect(failed.failed?.outcome == refused && failed.failed?.tries == 0)
    }
}

@Suite("The answers of push services to a message")
struct RecentTalliesTests {
    private static let project = ProjectNumber(1)

    private func tally(_ outcome: PushOutcome, at time: Int64, kind: Transport.Kind = .web) -> PushTally {
        PushTally(kind: kind, outcome: outcome, count: 1, newest: WallTime(milliseconds: time))
    }

    @Test("are added up by service and word, with the newest reason")
    func added() {
        var list: [PushTally] = []
        for (outcome, time, kind) in [
            (.unsent("late"), 9, .web), (.accepted, 3, .apns), (.unsent("early"), 8, .web),
            (.accepted, 2, .web), (.transient(retryAfterSeconds: 5), 4, .web), (.accepted, 1, .apns),
        ] as [(PushOutcome, Int64, Transport.Kind)] {
            list.add(tally(outcome, at: time, kind: kind))
        }
        #expect(list.map(\.kind) == [.web, .web, .web, .apns])
        #expect(list.map(\.outcome.word) == ["accepted", "failed", "unsent", "accepted"])
        #expect(list.map(\.count) == [1, 1, 2, 2])
        #expect(list[2].outcome == .unsent("late") && list[3].newest == WallTime(milliseconds: 3))
    }

    @Test("are kept for so many messages, and the message leaves first that came first")
    func bounded() {
        var kept = RecentTallies()
        for number in [1, 2, 1, 3, 1, 4] as [UInt64] {
            kept.note(
                tally(.accepted, at: 0), of: MessageID(time: 1, random: number),
                in: RecentTalliesTests.project, messagesMax: 3)
        }
        let counts = (1...4).map { number in
            kept[RecentTalliesTests.project, MessageID(time: 1, random: number)].first?.count
        }
        #expect(counts == [nil, 1, 1, 1])
        #expect(kept[ProjectNumber(2), MessageID(time: 1, random: 4)].isEmpty)
        #expect(kept.brokenInvariant(messagesMax: 3) == nil)
        #expect(kept.brokenInvariant(messagesMax: 2) == "more answers to messages are kept than may be")
    }

    @Test("are what the partition's owner has heard of the message, try after try")
    func ofPartition() throws {
        let harness = PartitionHarness()
        let (device, _) = try PushTests.device(harness)
        let id = MessageID(time: 1, random: 2)
        harness.publish("{\"messageId\":\"\(id.text)\"}", to: "news")
        func answers(in project: ProjectNumber) throws -> [PushTally] {
            let reply = harness.request(.pushes(project: project, of: id), of: device.partition)
            guard case .pushes(let tallies) = try #require(reply) else { return [] }
            return tallies
        }
        #expect(try answers(in: device.project).isEmpty)
        let outcomes: [(PushOutcome, PushReport.Result)] = [
            (.transient(retryAfterSeconds: nil), .later(after: .seconds(2), isFailure: true)),
            (.accepted, .done),
        ]
        for (outcome, result) in outcomes {
            let (partition, job) = try #require(harness.jobs.last)
            harness.send(.pushed(PushReport(number: job.number, result, outcome: outcome)), to: partition)
            harness.pass(seconds: 5)
        }
        #expect(try answers(in: device.project).map(\.outcome.word) == ["accepted", "failed"])
        #expect(try answers(in: device.project).map(\.count) == [1, 1])
        #expect(try answers(in: ProjectNumber(9)).isEmpty)
    }
}
