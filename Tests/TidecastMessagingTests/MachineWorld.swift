import Foundation

@testable import TidecastMessaging

/// A machine in virtual time, what it has sent and not yet heard, and what it has told the app and stored.
struct MachineWorld {
    var machine: Machine
    var now = Duration.seconds(1000)
    var sent: [(number: UInt64, call: Call)] = []
    var stream: (number: UInt64, resume: String?)?
    var stored: ClientState
    var storedRegistration: Registration?
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
        state: ClientState = ClientState(), registration: Registration? = nil, seed: UInt64 = 1,
        now: Duration = .seconds(1000)
    ) {
        machine = Machine(state: state, registration: registration, seed: seed)
        stored = state
        storedRegistration = registration
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
        MachineWorld(state: stored, registration: storedRegistration, seed: seed, now: now)
    }

    mutating func act(_ body: (inout Machine, Duration) -> Void) {
        body(&machine, now)
        for effect in machine.takeEffects() { carryOut(effect) }
    }

    private mutating func carryOut(_ effect: Effect) {
        switch effect {
        case .store(let state, let isUrgent):
            stored = state
            trace.append(isUrgent ? "store at once" : "store")
        case .storeRegistration(let registration):
            storedRegistration = registration
            trace.append("store registration")
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

    /// Goes to the machine's next time. False where it waits for nothing.
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
    static let gone = Answer.status(404, code: "UNREGISTERED")
}
