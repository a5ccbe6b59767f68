import Foundation

@testable import TidecastMessaging

/// A machine in virtual time, what it has sent and not yet heard, and what it has told the app and stored.
struct MachineWorld {
    var machine: Machine
    var now = Duration.seconds(1000)
    var sent: [(number: UInt64, call: Call)] = []
    var stream: (number: UInt64, resume: String?)?
    /// What the next process finds; `nil` if no state was ever stored.
    var stored: ClientState?
    var storedRegistrations: Registrations
    /// The storage refuses with this.
    var storageError: MessagingError?
    /// The process dies before the storage takes so many pieces more.
    var diesAfter: Int?
    /// What each waiting caller has heard; one entry for each time.
    var heard: [UInt64: [MessagingError?]] = [:]
    var tokens: [UInt64: [Result<String, MessagingError>]] = [:]
    var announced: [String?] = []
    var delivered: [MessagingEvent] = []
    var ended: [UInt64] = []
    /// Each effect in a word, in order.
    var trace: [String] = []

    static let device = Registration(fid: "fid1", token: "fid1:proof", credential: "secret1")

    init(
        state: ClientState? = nil, registration: Registration? = nil, ended: [Registration] = [],
        replaced: [Registration]? = nil, seed: UInt64 = 1, now: Duration = .seconds(1000)
    ) {
        storedRegistrations = Registrations(current: registration, ended: ended, replaced: replaced)
        machine = Machine(state: state, registrations: storedRegistrations, seed: seed)
        stored = state
        self.now = now
        act { $0.start(now: $1) }
    }

    /// A device that is registered; the topics are confirmed.
    static func registered(_ topics: String..., seed: UInt64 = 1) -> MachineWorld {
        var state = ClientState()
        state.fid = device.fid
        for topic in topics {
            let version = state.nextVersion()
            state.wishes[topic] = .init(isWanted: true, version: version, confirmed: version)
        }
        return MachineWorld(state: state, registration: device, seed: seed)
    }

    /// The next process of the same device: all that was not stored is lost.
    func restarted(seed: UInt64 = 7) -> MachineWorld {
        MachineWorld(
            state: stored, registration: storedRegistrations.current, ended: storedRegistrations.ended,
            replaced: storedRegistrations.replaced, seed: seed, now: now)
    }

    mutating func act(_ body: (inout Machine, Duration) -> Void) {
        body(&machine, now)
        var effects = machine.takeEffects()
        while !effects.isEmpty {
            for effect in effects where diesAfter != 0 { carryOut(effect) }
            effects = machine.takeEffects()
        }
    }

    private mutating func store(_ piece: Storing.Piece, _ body: (inout MachineWorld) -> Void) {
        if storageError == nil { body(&self) }
        machine.stored(piece, storageError, now: now)
        if let left = diesAfter { diesAfter = left - 1 }
    }

    private mutating func carryOut(_ effect: Effect) {
        switch effect {
        case .store(let state, let isUrgent):
            store(.state) { $0.stored = state }
            trace.append(isUrgent ? "store at once" : "store")
        case .storeRegistrations(let all):
            store(.registrations) { $0.storedRegistrations = all }
            trace.append("store registrations")
        case .send(let number, let call):
            sent.append((number, call))
            trace.append("send")
        case .openStream(let number, _, let resume): stream = (number, resume)
        case .closeStream: stream = nil
        case .complete(let waiters, let error):
            for waiter in waiters { heard[waiter, default: []] += [error] }
        case .answerToken(let waiters, let result):
            for waiter in waiters { tokens[waiter, default: []] += [result] }
        case .tokenChanged(let token): announced.append(token)
        case .deliver(_, let event): delivered.append(event)
        case .endListener(let listener): ended.append(listener)
        }
    }

    // MARK: The app

    mutating func subscribe(_ topic: String, _ waiter: UInt64? = nil) {
        act { $0.wish(topic, isWanted: true, waiter: waiter, now: $1) }
    }
    mutating func unsubscribe(_ topic: String, _ waiter: UInt64? = nil) {
        act { $0.wish(topic, isWanted: false, waiter: waiter, now: $1) }
    }
    mutating func listen(_ listener: UInt64 = 100) {
        act { $0.listen(listener, now: $1) }
        pull(listener)
    }
    mutating func pull(_ listener: UInt64 = 100) { act { $0.pull(listener, now: $1) } }

    // MARK: Time and server

    mutating func pass(_ duration: Duration) {
        now += duration
        act { $0.timer(now: $1) }
    }

    /// Goes to the machine's next time. False if it waits for nothing.
    mutating func next() -> Bool {
        guard let time = machine.nextTime(now: now) else { return false }
        now = time
        act { $0.timer(now: $1) }
        return true
    }

    /// Answers the oldest call that is under way.
    mutating func answer(_ answer: Answer) {
        let first = sent.removeFirst()
        act { $0.answer(first.number, answer, now: $1) }
    }

    /// Answers all calls that are under way, but those that register.
    mutating func answerAll(_ answer: Answer) {
        while let index = sent.firstIndex(where: { $0.call != .register }) {
            let call = sent.remove(at: index)
            act { $0.answer(call.number, answer, now: $1) }
        }
    }

    mutating func answer(_ topic: String, _ answer: Answer) {
        guard
            let index = sent.firstIndex(where: {
                if case .change(_, topic, _) = $0.call { true } else { false }
            })
        else { return }
        let call = sent.remove(at: index)
        act { $0.answer(call.number, answer, now: $1) }
    }

    mutating func signal(_ signal: StreamSignal) {
        guard let number = stream?.number else { return }
        act { $0.signal(number, signal, now: $1) }
    }

    mutating func message(_ name: String, id: String) {
        signal(.event(.message(.named(name)), id: id))
    }

    var calls: [Call] { sent.map(\.call) }
    var storedRegistration: Registration? { storedRegistrations.current }
    func change(_ topic: String, _ isSubscribe: Bool, by device: Registration = device) -> Call {
        .change(device, topic: topic, isSubscribe: isSubscribe)
    }
    static var device2: Registration { .init(fid: "fid2", token: "fid2:proof", credential: "secret2") }
}

extension RemoteMessage {
    static func named(_ name: String) -> RemoteMessage {
        RemoteMessage(
            messageID: name, from: "/topics/news", sentTime: nil, collapseKey: nil, data: [:],
            notification: nil, json: Data())
    }
}

extension Answer {
    static let ok = Answer.done(.nothing)
    static let lost = Answer.unreachable("no route")
    static func status(_ status: Int, code: String = "", field: String = "", after: Duration? = nil) -> Answer
    {
        .refused(Refusal(status: status, code: code, field: field, retryAfter: after))
    }
    /// The page of a machine on the way.
    static func page(_ status: Int) -> Answer {
        .refused(Refusal(status: status, isFromServer: false))
    }
    /// The server says that it has never made this registration.
    static let unknown = Answer.status(400, code: "INVALID_ARGUMENT", field: "name")
    static let gone = Answer.status(404, code: "UNREGISTERED")
}
