import Credentials
import Model
import RegistrationIDs
import Routing
import Testing

@testable import FCMAPI

/// A session with the keys of `APIHarness`, and what it decided last.
private struct SessionDriver {
    let harness = APIHarness()
    var session: PushSession
    var effects: [PushSession.Effect] = []
    var now = MonotonicTime(nanoseconds: 1_000_000_000_000)
    static let channel = "01234567-89ab-cdef-fedc-ba9876543210"

    init() {
        harness.api.directory.pushServices[harness.project.number] = PushServiceProject(
            .init(origin: "https://push.example.com"))
        session = harness.api.pushSession(of: harness.project)
    }

    var new: NewRegistration {
        NewRegistration(
            registration: Registration(
                project: harness.project.number, partition: PartitionID(3), index: DeviceIndex(9), nonce: 77,
                key: 0), secret: 99, created: harness.now)
    }

    mutating func tell(_ text: String) {
        effects = []
        harness.api.receive(Array(text.utf8), by: &session, now: now, into: &effects)
    }

    mutating func finish(_ work: PushSession.Work, _ outcome: Outcome) {
        effects = []
        session.finish(work, outcome, into: &effects)
    }

    mutating func open() {
        effects = []
        session.open(into: &effects)
    }

    mutating func deliver(_ position: UInt64, _ event: [UInt8]? = nil, isLoss: Bool = false) -> Bool {
        effects = []
        let event =
            event
            ?? PushServiceEvent.event(
                MessageID(time: position, random: 1), ChannelID(high: 1, low: 2), body: [1, 2, 3],
                by: .aes128gcm)
        return session.deliver(isLoss ? nil : event, id(position), into: &effects)
    }

    /// Hands over an event that the session must take.
    mutating func take(_ position: UInt64, _ event: [UInt8]? = nil, isLoss: Bool = false) {
        let isTaken = deliver(position, event, isLoss: isLoss)
        #expect(isTaken)
    }

    func id(_ position: UInt64) -> EventID { EventID(position: Position(position), history: 7) }

    func version(_ position: UInt64) -> String {
        var text: [UInt8] = []
        id(position).append(to: &text)
        return String(decoding: text, as: UTF8.self)
    }

    mutating func acknowledge(_ positions: UInt64..., code: Int = 100) {
        let updates = positions.map {
            "{\"channelID\":\"\(SessionDriver.channel)\",\"version\":\"\(version($0))\",\"code\":\(code)}"
        }
        tell("{\"messageType\":\"ack\",\"updates\":[\(updates.joined(separator: ","))]}")
    }

    /// A session whose user agent is connected.
    static func connected() -> SessionDriver {
        var driver = SessionDriver()
        driver.tell("{\"messageType\":\"hello\",\"broadcasts\":{},\"use_webpush\":true}")
        driver.finish(.registration, .registered(driver.new))
        driver.open()
        return driver
    }

    // MARK: What was decided

    var sent: [[String: Any]] {
        effects.compactMap { if case .send(let text) = $0 { object(text) } else { nil } }
    }
    var closed: UInt16? {
        for case .close(let code) in effects { return code }
        return nil
    }
    var works: [PushSession.Work] {
        effects.compactMap { if case .operation(_, let work) = $0 { work } else { nil } }
    }
    var acknowledged: EventID? {
        for case .operation(.acknowledge(_, _, let event), _) in effects { return event }
        return nil
    }
    var attached: Registration? {
        for case .attach(let device, _) in effects { return device }
        return nil
    }
    var notes: [PushServiceNote] {
        effects.compactMap { if case .note(let note) = $0 { note } else { nil } }
    }
}

@Suite("A user agent's session") struct PushSessionTests {
    private let register = "{\"messageType\":\"register\",\"channelID\":\"\(SessionDriver.channel)\"}"
    private let unregister = "{\"messageType\":\"unregister\",\"channelID\":\"\(SessionDriver.channel)\"}"

    @Test("makes a device for a new user agent, and says hello when the device's stream is open")
    func hello() throws {
        var driver = SessionDriver()
        driver.tell("{\"messageType\":\"hello\",\"uaid\":\"\",\"channelIDs\":[],\"use_webpush\":true}")
        #expect(driver.works == [.registration] && driver.sent.isEmpty)
        driver.finish(.registration, .registered(driver.new))
        #expect(driver.attached?.key == 1 && driver.session.registrationKey == 1)
        driver.open()
        let answer = try #require(driver.sent.first)
        #expect(answer["status"] as? Int == 200 && answer["use_webpush"] as? Bool == true)
        let uaid = try #require(answer["uaid"] as? String)
        #expect(uaid.utf8.count == API.userAgentLength && uaid.utf8.count <= 128)
        // The stream goes on at another owner.
        driver.open()
        #expect(driver.effects.isEmpty)
        var later = SessionDriver()
        later.tell("{\"messageType\":\"hello\",\"uaid\":\"\(uaid)\"}")
        #expect(later.attached == driver.session.identities.device(driver.new)?.0 && later.works.isEmpty)
        later.open()
        #expect(later.sent.first?["uaid"] as? String == uaid)
    }

    @Test("gives a user agent whose device has ended another one, once")
    func forgotten() throws {
        let keys = SessionDriver().harness.keys
        let new = SessionDriver().new
        let uaid = String(decoding: keys.fid(new.registration) + keys.credential(secret: 1), as: UTF8.self)
        var driver = SessionDriver()
        driver.tell("{\"messageType\":\"hello\",\"uaid\":\"\(uaid)\"}")
        driver.effects = []
        driver.session.refuse(.wrongCredential, into: &driver.effects)
        #expect(driver.works == [.registration])
        driver.finish(.registration, .registered(new))
        driver.effects = []
        driver.session.refuse(.unregistered, into: &driver.effects)
        #expect(driver.closed == PushSession.Code.tryAgainLater)
        var unavailable = SessionDriver()
        unavailable.tell("{\"messageType\":\"hello\",\"uaid\":\"\(uaid)\"}")
        unavailable.effects = []
        unavailable.session.refuse(.unavailable("x"), into: &unavailable.effects)
        #expect(unavailable.closed == PushSession.Code.tryAgainLater && unavailable.works.isEmpty)
    }

    @Test("takes a uaid of another project, of another cluster or of no form for none")
    func strange() {
        let harness = APIHarness()
        let other = RegistrationKeys([RegistrationKey(number: 1, material: Array(33...64))])
        var device = SessionDriver().new.registration
        var texts = ["x", String(repeating: "A", count: 44)]
        texts.append(String(decoding: other.fid(device) + other.credential(secret: 9), as: UTF8.self))
        device.project = ProjectNumber(6)
        texts.append(
            String(decoding: harness.keys.fid(device) + harness.keys.credential(secret: 9), as: UTF8.self))
        for text in texts {
            var driver = SessionDriver()
            driver.tell("{\"messageType\":\"hello\",\"uaid\":\"\(text)\"}")
            #expect(driver.works == [.registration], "\(text)")
        }
        // While the keys may be old, the user agent keeps its uaid and comes back.
        var driver = SessionDriver()
        driver.harness.api.areKeysCurrent = { false }
        driver.tell("{\"messageType\":\"hello\",\"uaid\":\"\(texts[2])\"}")
        #expect(driver.closed == PushSession.Code.tryAgainLater)
    }

    @Test("ends with a close where a message is malformed or comes at the wrong time")
    func malformed() {
        for text in [
            "", "x", "[]", "1", "{", "{\"a\":1}", "{\"messageType\":\"ack\"}",
            "{\"messageType\":\"register\"}", "{\"messageType\":\"register\",\"channelID\":\"x\"}",
            "{\"messageType\":\"unregister\",\"channelID\":1}", "{\"messageType\":\"hello\"}",
            "{\"messageType\":\"ack\",\"updates\":[\(Array(repeating: "{}", count: 257).joined(separator: ","))]}",
        ] {
            var driver = SessionDriver.connected()
            driver.tell(text)
            #expect(driver.closed == PushSession.Code.protocolError, "\(text.prefix(60))")
            driver.tell("{}")
            #expect(driver.effects.isEmpty)
        }
        var early = SessionDriver()
        early.tell(register)
        #expect(early.closed == PushSession.Code.protocolError)
        var ignored = SessionDriver.connected()
        ignored.tell("{\"messageType\":\"broadcast_subscribe\",\"broadcasts\":{\"a\":\"b\"}}")
        #expect(ignored.effects.isEmpty)
    }

    @Test("answers a ping, and ends with autopush's code where pings come too often")
    func pings() {
        var driver = SessionDriver.connected()
        driver.tell("{}")
        #expect(driver.sent.count == 1 && driver.sent[0].isEmpty)
        driver.now = driver.now.advanced(by: .seconds(45))
        driver.tell("{}")
        #expect(driver.sent.count == 1)
        driver.now = driver.now.advanced(by: .seconds(44))
        driver.tell("{}")
        #expect(driver.closed == PushSession.Code.backOff && driver.sent.isEmpty)
    }

    @Test("makes a channel a topic of the device, and answers with a sealed endpoint when that is durable")
    func channels() throws {
        var driver = SessionDriver.connected()
        driver.tell(register)
        let channel = try #require(ChannelID(SessionDriver.channel.utf8))
        #expect(driver.works == [.register(channel, keyHash: nil)] && driver.sent.isEmpty)
        guard case .operation(.changeSubscriptions(let change), _)? = driver.effects.first else {
            Issue.record("no change")
            return
        }
        #expect(change.topic.description == SessionDriver.channel && change.kind == .subscribe)
        driver.finish(.register(channel, keyHash: nil), .changes([.changed(Day(1))]))
        let answer = try #require(driver.sent.first)
        #expect(answer["status"] as? Int == 200)
        let endpoint = try #require(answer["pushEndpoint"] as? String)
        #expect(endpoint.hasPrefix("https://push.example.com/push/v1/") && endpoint.utf8.count < 1000)
        let address = try driver.harness.keys.openAddress(endpoint.dropFirst(33).utf8).get()
        #expect(address.channel == channel && address.senderKeyHash == nil)
        driver.tell(unregister)
        #expect(driver.works == [.unregister(channel)])
        driver.finish(.unregister(channel), .changes([.changed(Day(1))]))
        #expect(driver.sent.first?["status"] as? Int == 200)
    }

    @Test("says what became of a channel that cannot be made")
    func refusedChannels() throws {
        let channel = try #require(ChannelID(SessionDriver.channel.utf8))
        for (outcome, status) in [
            (Outcome.changes([.refused(.tooManyTopics)]), 429), (.refused(.unavailable("x")), 503),
            (.refused(.quota(.init(kind: .addressMinute, limit: 1, retryDelay: .seconds(1)))), 429),
        ] {
            var driver = SessionDriver.connected()
            driver.tell(register)
            driver.finish(.register(channel, keyHash: nil), outcome)
            #expect(driver.sent.first?["status"] as? Int == status)
            #expect(driver.sent.first?["pushEndpoint"] as? String == "")
        }
        var ended = SessionDriver.connected()
        ended.tell(register)
        ended.finish(.register(channel, keyHash: nil), .changes([.refused(.unregistered)]))
        #expect(ended.closed == PushSession.Code.restart)
        var bad = SessionDriver.connected()
        bad.tell("{\"messageType\":\"register\",\"channelID\":\"\(SessionDriver.channel)\",\"key\":\"AAAA\"}")
        #expect(bad.sent.first?["status"] as? Int == 400 && bad.works.isEmpty)
        var many = SessionDriver.connected()
        for _ in 0..<PushSession.requestsMax { many.tell(register) }
        #expect(many.works.count == 1)
        many.tell(register)
        #expect(many.sent.first?["status"] as? Int == 503 && many.works.isEmpty)
    }

    @Test("acknowledges as far as the user agent has acknowledged all, in whatever order")
    func acknowledgements() {
        var driver = SessionDriver.connected()
        for position in 1...4 as ClosedRange<UInt64> { driver.take(position) }
        #expect(driver.sent.first?["version"] as? String == driver.version(4))
        #expect(driver.sent.first?["messageType"] as? String == "notification")
        driver.acknowledge(2)
        #expect(driver.acknowledged == nil && driver.notes == [.acknowledged(.delivered)])
        driver.acknowledge(1)
        #expect(driver.acknowledged == driver.id(2))
        // One acknowledgement is under way at once.
        driver.acknowledge(3, 4)
        #expect(driver.acknowledged == nil)
        driver.finish(.acknowledgement, .done)
        #expect(driver.acknowledged == driver.id(4))
        driver.finish(.acknowledgement, .done)
        driver.acknowledge(4)
        #expect(driver.effects.isEmpty)
    }

    @Test("tells the log again what the log refused to hear")
    func refusedAcknowledgement() {
        var driver = SessionDriver.connected()
        driver.take(1)
        driver.acknowledge(1)
        driver.finish(.acknowledgement, .refused(.unavailable("moving")))
        #expect(driver.acknowledged == nil)
        driver.effects = []
        driver.session.tick(into: &driver.effects)
        #expect(driver.acknowledged == driver.id(1))
    }

    @Test("counts a code 101 as a message that the user agent could not open")
    func codes() {
        var driver = SessionDriver.connected()
        for position in 1...3 as ClosedRange<UInt64> { driver.take(position) }
        driver.acknowledge(1, code: 101)
        #expect(driver.notes == [.acknowledged(.undecipherable)])
        #expect(driver.acknowledged == driver.id(1))
        driver.acknowledge(2, code: 102)
        #expect(driver.notes == [.acknowledged(.undelivered)])
        driver.tell("{\"messageType\":\"nack\",\"version\":\"x\",\"code\":301}")
        #expect(driver.notes == [.complained])
    }

    @Test("passes over losses and FCM's messages, and acknowledges them in their order")
    func skipped() {
        var driver = SessionDriver.connected()
        driver.take(1, isLoss: true)
        #expect(driver.sent.isEmpty && driver.acknowledged == driver.id(1) && driver.notes == [.lost])
        driver.finish(.acknowledgement, .done)
        driver.take(2)
        let id = MessageID(time: 1, random: 1).text
        driver.take(3, Array("{\"messageId\":\"\(id)\",\"from\":\"shop\"}".utf8))
        #expect(driver.sent.isEmpty && driver.acknowledged == nil && driver.notes == [.skipped])
        driver.acknowledge(2)
        #expect(driver.acknowledged == driver.id(3))
    }

    @Test("takes no further notification while 1,024 are not acknowledged, and tells when there is room")
    func full() {
        var driver = SessionDriver.connected()
        for position in 1...1024 as ClosedRange<UInt64> { driver.take(position) }
        let isTaken = driver.deliver(1025)
        #expect(!isTaken && driver.sent.isEmpty)
        for position in 1...511 as ClosedRange<UInt64> { driver.acknowledge(position) }
        func isDrained() -> Bool { driver.effects.contains { if case .drained = $0 { true } else { false } } }
        #expect(!isDrained())
        driver.acknowledge(512)
        #expect(isDrained() && driver.session.outstanding.count == 512)
    }

    @Test("leaves the device to the connection that has taken its place, also without a channel")
    func replaced() {
        var driver = SessionDriver.connected()
        driver.effects = []
        driver.session.replace(into: &driver.effects)
        #expect(driver.works.isEmpty)
        driver.session.lose(into: &driver.effects)
        #expect(driver.works.isEmpty)
    }

    @Test("ends the device of a user agent that left without a channel, whenever the device comes")
    func unused() throws {
        var driver = SessionDriver.connected()
        driver.effects = []
        driver.session.lose(into: &driver.effects)
        #expect(driver.works == [.farewell])
        // The owner decides: another connection may have registered a channel.
        guard case .operation(.unregisterUnused, .farewell)? = driver.effects.first else {
            Issue.record("the session asks for \(driver.effects)")
            return
        }
        var late = SessionDriver()
        late.tell("{\"messageType\":\"hello\"}")
        late.effects = []
        late.session.lose(into: &late.effects)
        #expect(late.works.isEmpty)
        late.finish(.registration, .registered(late.new))
        #expect(late.works == [.farewell] && late.attached == nil)
        var used = SessionDriver.connected()
        used.tell(register)
        used.effects = []
        used.session.lose(into: &used.effects)
        #expect(used.works.isEmpty)
        let channel = try #require(ChannelID(SessionDriver.channel.utf8))
        used.finish(.register(channel, keyHash: nil), .changes([.changed(Day(1))]))
        #expect(used.effects.isEmpty)
    }
}
