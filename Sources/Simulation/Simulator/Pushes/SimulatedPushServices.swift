import Model
import PushMessages

/// The push services of a simulated cluster. They answer anything: late, twice, or not at all.
final class SimulatedPushServices {
    /// What one of the services does with each request for a while.
    enum Mood: Hashable {
        case well
        /// Answers come late, some after the client has given up.
        case slow
        /// Nobody can connect.
        case unreachable
        /// Requests are swallowed.
        case silent
        /// All requests get 503, or 429, with or without `Retry-After`.
        case overloaded(status: Int, retryAfter: Int?)
        /// The key or account is refused.
        case refusing
        /// The service says of each device that it is gone: a wrong setting, there or here.
        case denying
        /// All messages get an answer that is not the service's own, as of a proxy in front of it.
        case unexplained(status: Int)
    }
    static let refusal = Answer(status: 403, body: "{\"reason\":\"InvalidProviderToken\"}")
    /// An answer as the client for push services reads it.
    struct Answer: Hashable {
        var status: Int
        var retryAfter: Int?
        var body = ""
        var result: PushResult {
            .answered(status: status, retryAfter: retryAfter.map(String.init), body: Array(body.utf8))
        }
    }
    /// What a request asks for.
    enum Asked {
        /// A message, with an access token if it is for FCM.
        case message(PushRequest, token: String?)
        /// An access token for FCM, for the account that the setting names.
        case token(ProjectNumber, setting: UInt64)
    }
    enum Reply: Hashable {
        case answer(Answer)
        /// No connection, or one that broke.
        case failed
        case nothing
    }

    private unowned let world: ClusterSimulation
    /// Addresses of which a service has said that they are gone, and when it said so first.
    private var gone: [PushAddress: MonotonicTime] = [:]
    private(set) lazy var apple = SimulatedApple(world)
    private lazy var authority = SimulatedTokenHost(world)
    /// Services that have had the mood `denying`, which each has once.
    private var denied: Set<String> = []
    /// Addresses of which a service has said in this mood that they are gone, by device and kind.
    private var deniedKinds: [Int: Set<Transport.Kind>] = [:]
    /// Addresses of which a service has said this under wrong settings, with the settings.
    private var wronglyDenied: [PushAddress: Set<UInt64>] = [:]
    private var moods: [String: (mood: Mood, until: MonotonicTime)] = [:]

    init(_ world: ClusterSimulation) { self.world = world }

    /// Whether a service has said of one of these addresses of the device: gone.
    func hasGone(_ kind: Transport.Kind, _ numbers: ClosedRange<Int>, of device: Int) -> Bool {
        gone(kind, numbers, of: device) != nil
    }
    func isGone(_ address: PushAddress) -> Bool { gone[address] != nil }
    /// When a service said first of one of these addresses that it is gone; `nil` if none has.
    func gone(
        _ kind: Transport.Kind, _ numbers: some Swift.Sequence<Int>, of device: Int
    ) -> MonotonicTime? {
        numbers.compactMap { gone[PushAddress(device: device, kind: kind, number: $0)] }.min()
    }

    /// A request leaves a node, and comes to the service `name` a moment later, whatever becomes of the node.
    /// The node gets the answer if its process still runs.
    func receive(
        _ request: Asked, at name: String, from process: SimulatedProcess,
        _ replied: @escaping (Reply) -> Void
    ) {
        world.after(.milliseconds(1) + world.roll(.milliseconds(30)), .network) { [self] in
            let (reply, delay) = reply(to: request, at: name)
            guard reply != .nothing else { return world.count("pushes unanswered") }
            let way = TimeSpan.milliseconds(1) + world.roll(.milliseconds(30)) + delay
            world.after(way, .network, process: process) { replied(reply) }
            if world.chance(20) {
                world.after(way * 2, .network, process: process) { replied(reply) }
            }
        }
    }

    private func reply(to request: Asked, at name: String) -> (Reply, TimeSpan) {
        var delay = world.chance(50) ? world.roll(.seconds(8)) : .zero
        switch mood(of: name) {
        case .well: break
        case .slow: delay = world.roll(world.options.pushClient.answerMax * 2)
        case .unreachable: return (.failed, .zero)
        case .silent: return (.nothing, .zero)
        case .refusing:
            world.count("keys refused")
            return (.answer(SimulatedPushServices.refusal), delay)
        case .denying:
            guard case .message(let message, _) = request else { break }
            return (.answer(deny(message)), delay)
        case .unexplained(let status):
            guard case .message(let message, _) = request else { break }
            return (.answer(unexplained(status, to: message)), delay)
        case .overloaded(let status, let seconds):
            world.count("pushes to overloaded services")
            return (.answer(Answer(status: status, retryAfter: seconds)), delay)
        }
        let answer = answer(to: request)
        return (isWell || !world.chance(10) ? .answer(answer) : .nothing, delay)
    }

    private var isWell: Bool { world.isHealing }

    func mood(of name: String) -> Mood {
        let isMoody =
            world.options.pushMoodsPerMille > 0 || world.options.deniesDevices
            || world.options.pushUnexplainedPerMille > 0
        guard !isWell, isMoody else { return .well }
        if let known = moods[name], world.now < known.until { return known.mood }
        let until = world.now + .milliseconds(500) + world.roll(.seconds(6))
        var mood = Mood.well
        if world.chance(world.options.pushMoodsPerMille) {
            let seconds = world.roll(2) == 0 ? Int(world.roll(6)) : nil
            switch world.roll(7) {
            case 0: mood = .slow
            case 1: mood = .unreachable
            case 2: mood = .silent
            case 3: mood = .overloaded(status: 429, retryAfter: seconds)
            case 4: mood = .refusing
            default: mood = .overloaded(status: 503, retryAfter: seconds)
            }
        }
        if world.options.deniesDevices, world.roll(4) == 0, denied.insert(name).inserted { mood = .denying }
        if world.options.pushUnexplainedPerMille > 0, world.roll(4) == 0 {
            mood = .unexplained(status: [302, 400, 407][Int(world.roll(3))])
        }
        moods[name] = (mood, until)
        world.debug("push service \(name) is \(mood) for a while")
        return mood
    }

    private func answer(to request: Asked) -> Answer {
        switch request {
        case .token(let project, let setting):
            return authority.token(for: project, setting, isWell: isWell)
        case .message(let message, let token):
            if let token, !authority.takes(token, of: message, isWell: isWell) {
                return Answer(status: 401, body: "{\"error\":{\"status\":\"UNAUTHENTICATED\"}}")
            }
            return answer(to: message)
        }
    }

    func answer(to request: PushRequest) -> Answer {
        guard let address = PushAddress(request.job.transport) else { return Answer(status: 400) }
        if let wrong = wrongAnswer(request) { return wrong }
        if gone[address] != nil { return goneAnswer(request) }
        if isUnexplained(request) { return unexplained(407, to: request) }
        if !isWell, world.chance(world.options.pushGonePerMille) {
            gone[address] = world.now
            world.count("addresses gone")
            return goneAnswer(request)
        }
        if !isWell, world.chance(world.options.pushFailPerMille) {
            world.count("pushes failed")
            let seconds = world.roll(3) == 0 ? Int(world.roll(4)) : nil
            switch world.roll(4) {
            case 0: return Answer(status: 429, retryAfter: seconds)
            case 1: return Answer(status: 403, body: "{\"reason\":\"InvalidProviderToken\"}")
            default: return Answer(status: 503, retryAfter: seconds)
            }
        }
        let message = world.number(ofBody: request.job.event)
        world.note(message << 8 ^ UInt64(address.device) ^ 0x50_0000)
        world.count("pushes accepted")
        if request.job.isMomentary { world.count("attempts of now or never") }
        world.history.pushes.append(
            .init(
                device: address.device, message: message, position: 0, at: world.now, service: address.kind))
        return Answer(status: request.job.transport.kind == .web ? 201 : 200)
    }

    /// Some messages get such an answer each time, which may then be about the message.
    private func isUnexplained(_ request: PushRequest) -> Bool {
        let number = world.number(ofBody: request.job.event)
        return !isWell && number &* 0x9E37_79B9 % 1000 < world.options.pushUnexplainedPerMille
    }

    private func unexplained(_ status: Int, to request: PushRequest) -> Answer {
        world.count("pushes answered with what explains nothing")
        if let address = PushAddress(request.job.transport) {
            world.history.noteUnexplained(world.number(ofBody: request.job.event), to: address.device)
        }
        return Answer(status: status, body: "<html>")
    }

    /// The service says that the device is gone, as of each device now.
    func deny(_ request: PushRequest) -> Answer {
        world.count("devices denied")
        if let address = PushAddress(request.job.transport) {
            deniedKinds[address.device, default: []].insert(address.kind)
        }
        return goneAnswer(request)
    }

    /// Whether a service has denied an address of this kind: another one of the device may be used.
    func hasDenied(_ kind: Transport.Kind, of device: Int) -> Bool {
        deniedKinds[device]?.contains(kind) ?? false
    }

    /// What the service answers for every device if the message leaves under another account's setting.
    func wrongAnswer(_ request: PushRequest) -> Answer? {
        guard world.pushSettings.isWrong(request.setting) else { return nil }
        world.count("pushes under wrong settings")
        if let address = PushAddress(request.job.transport) {
            wronglyDenied[address, default: []].insert(request.setting)
        }
        let isOther = world.roll(2) == 0
        switch request.job.transport.kind {
        case .web: return Answer(status: isOther ? 404 : 410)
        case .apns:
            let reason = isOther ? "BadDeviceToken" : "DeviceTokenNotForTopic"
            return Answer(status: 400, body: "{\"reason\":\"\(reason)\"}")
        case .fcm:
            return Answer(
                status: 403, body: "{\"error\":{\"details\":[{\"errorCode\":\"SENDER_ID_MISMATCH\"}]}}")
        }
    }

    /// Whether a service has denied an address of this kind under this setting.
    func hasDenied(_ kind: Transport.Kind, of device: Int, under setting: UInt64) -> Bool {
        wronglyDenied.contains {
            $0.key.device == device && $0.key.kind == kind && $0.value.contains(setting)
        }
    }

    private func goneAnswer(_ request: PushRequest) -> Answer {
        switch request.job.transport.kind {
        case .web: Answer(status: 410)
        case .apns: Answer(status: 410, body: "{\"reason\":\"Unregistered\"}")
        case .fcm: Answer(status: 404, body: "{\"error\":{\"details\":[{\"errorCode\":\"UNREGISTERED\"}]}}")
        }
    }
}
