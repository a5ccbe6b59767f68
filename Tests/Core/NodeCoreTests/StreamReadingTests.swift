import Model
import Routing
import Testing

@testable import NodeCore
@testable import Partitions

/// More waits for another process's streams than the link to it takes.
@Suite("A loop whose devices come back at another process")
struct StreamReadingTests {
    private static let devices = 10
    private static let messages = 20
    private static let body = [UInt8](repeating: 120, count: 2000)
    private static let gateway = GatewayID(processID: LoopHarness.otherProcess, loop: 0)

    /// Runs a turn, and then a turn for each answer of the engine until it is asked for nothing more.
    private func run(_ harness: LoopHarness, _ message: LoopMessage) -> [LoopEffect] {
        var all: [LoopEffect] = []
        var messages = [message]
        while !messages.isEmpty {
            let effects = harness.turn(messages.removeFirst())
            messages += effects.rows.map { .partition($0.partition, .appended($0.sequence)) }
            for case .call(.confirm(let id, let token)) in effects {
                messages.append(.partition(id, .confirmed(token)))
            }
            all += effects
        }
        return all
    }

    /// Devices with messages that wait, and the commands that attach their streams.
    private func world(readBytes: Int) -> (LoopHarness, attach: [LoopMessage]) {
        let harness = LoopHarness { options in
            options.bounds.readBytesAtOnce = readBytes
            options.partition.streamBytesAtOnce = 4000
        }
        harness.serve()
        var attach: [LoopMessage] = []
        for number in 0..<StreamReadingTests.devices {
            _ = run(harness, LoopHarness.registration(number: UInt64(number) + 1, deadline: .max))
            let device = Registration(
                project: LoopHarness.project, partition: LoopHarness.partition,
                index: DeviceIndex(UInt32(number)), nonce: 1, key: 1)
            for text in 0..<StreamReadingTests.messages {
                let id = UInt64(1000 + number * StreamReadingTests.messages + text)
                let message = Envelope(
                    id: MessageID(time: id, random: 1), event: StreamReadingTests.body,
                    sent: harness.now.wall, ttlSeconds: 3600)
                let send = LoopMessage.request(
                    LoopHarness.partition, RequestID(gateway: StreamReadingTests.gateway, number: id),
                    .sendToDevice(nil, device, message),
                    RequestGuard(epoch: Epoch(3), deadline: Deadline(.max)))
                _ = run(harness, send)
            }
            let stream = StreamID(gateway: StreamReadingTests.gateway, number: UInt64(number) + 1)
            attach.append(
                .partition(
                    LoopHarness.partition, .stream(.attach(stream, device, by: .backend, resume: nil))))
        }
        return (harness, attach)
    }

    /// The events in the frames to the other process, and the streams that became live.
    private func read(_ effects: [LoopEffect]) -> (bytes: Int, events: Int, live: Int) {
        var found = (bytes: 0, events: 0, live: 0)
        for case .stream(_, _, .events(_, _, _, _, _, let events)) in effects.said {
            found.bytes += events.reduce(0) { $0 + $1.event.count }
            found.events += events.count
            found.live += events.isEmpty ? 1 : 0
        }
        return found
    }

    private func isWakeSet(_ effects: [LoopEffect]) -> Bool {
        effects.contains { if case .wake(.readOn, _) = $0 { true } else { false } }
    }

    /// Fires the timer that the loop has set until it sets no more. Returns what each time brought.
    private func goOn(_ harness: LoopHarness) -> [(bytes: Int, events: Int, live: Int)] {
        var found: [(bytes: Int, events: Int, live: Int)] = []
        var isSet = true
        while isSet, found.count < 1000 {
            harness.pass(milliseconds: 10)
            let effects = run(harness, .timer(.readOn))
            isSet = isWakeSet(effects)
            found.append(read(effects))
        }
        return found
    }

    @Test("sends in one turn what the bound says, and in the end everything")
    func paced() {
        let (harness, attach) = world(readBytes: 32_000)
        harness.host.pressure = .behind
        var effects: [LoopEffect] = []
        for message in attach { effects += run(harness, message) }
        #expect(read(effects).events == 0 && isWakeSet(effects), "nothing goes to a process that is behind")
        harness.host.pressure = .none
        let found = goOn(harness)
        // A stream gets at most one message beyond its part.
        #expect(found.allSatisfy { $0.bytes <= 32_000 + 4000 })
        #expect(found.filter { $0.bytes > 0 }.count >= 12)
        #expect(
            found.reduce(0) { $0 + $1.events } == StreamReadingTests.devices * StreamReadingTests.messages)
        #expect(found.reduce(0) { $0 + $1.live } == StreamReadingTests.devices)
    }

    @Test("sends one part for each wake over a link that ordinary traffic fills")
    func filling() {
        let (harness, attach) = world(readBytes: 32_000)
        harness.host.pressure = .filling
        for message in attach { _ = run(harness, message) }
        let found = goOn(harness)
        #expect(found.allSatisfy { $0.bytes <= 4000 })
        #expect(
            found.reduce(0) { $0 + $1.events } == StreamReadingTests.devices * StreamReadingTests.messages)
    }
}
