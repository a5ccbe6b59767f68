import Model
import Synchronization

/// What a development server does for tests of backends: it tells which messages it has accepted, and gives
/// answers that it was asked to give. Shared by the loops of one process; nothing of it is stored.
public final class Emulator: Sendable {
    /// Messages that are kept for each project, the newest.
    static let messagesMax = 1000
    /// Sends that are under way and will be kept when they are accepted.
    static let askedMax = 1000
    /// Faults that one project may wait for.
    static let faultsMax = 100
    /// Projects of which something is kept.
    static let projectsMax = 1000

    /// A message that was accepted.
    struct Sent: Sendable {
        var id: MessageID
        var time: WallTime
        /// As the backend wrote it, in compact JSON.
        var message: [UInt8]
    }
    private struct Asked {
        var project: String
        var sent: Sent
    }
    private struct Kept {
        var messages: [Sent] = []
        var faults: [Fault] = []
    }
    private struct State {
        var asked: [Asked] = []
        var projects: [String: Kept] = [:]
    }
    private let state = Mutex(State())

    public init() {}

    // MARK: Messages

    /// A send was read; whether it is accepted will be seen.
    func asked(_ sent: Sent, of project: String) {
        state.withLock { state in
            if state.asked.count >= Emulator.askedMax { state.asked.removeFirst() }
            state.asked.append(Asked(project: project, sent: sent))
        }
    }

    func accepted(_ id: MessageID) {
        state.withLock { state in
            guard let place = state.asked.lastIndex(where: { $0.sent.id == id }) else { return }
            let asked = state.asked.remove(at: place)
            guard var kept = Emulator.kept(of: asked.project, in: state) else { return }
            if kept.messages.count >= Emulator.messagesMax { kept.messages.removeFirst() }
            kept.messages.append(asked.sent)
            state.projects[asked.project] = kept
        }
    }

    /// The oldest first.
    func messages(of project: String) -> [Sent] {
        state.withLock { $0.projects[project]?.messages ?? [] }
    }

    func forgetMessages(of project: String) {
        state.withLock { $0.projects[project]?.messages = [] }
    }

    // MARK: Faults

    /// False where too many wait already.
    func add(_ fault: Fault, to project: String) -> Bool {
        state.withLock { state in
            guard var kept = Emulator.kept(of: project, in: state), kept.faults.count < Emulator.faultsMax
            else { return false }
            kept.faults.append(fault)
            state.projects[project] = kept
            return true
        }
    }

    func faults(of project: String) -> [Fault] {
        state.withLock { $0.projects[project]?.faults ?? [] }
    }

    func forgetFaults(of project: String) {
        state.withLock { $0.projects[project]?.faults = [] }
    }

    /// What is to happen to a send of the project: the first fault that is meant for it. It counts as given.
    func takeFault(of project: String, device: [UInt8]?) -> Fault? {
        state.withLock { state in
            guard let faults = state.projects[project]?.faults,
                let place = faults.firstIndex(where: { $0.concerns(device) })
            else { return nil }
            let fault = faults[place]
            if let times = fault.times {
                state.projects[project]?.faults[place].times = times - 1
                if times <= 1 { state.projects[project]?.faults.remove(at: place) }
            }
            return fault
        }
    }

    /// Nothing is kept of the project any more.
    func forget(_ project: String) {
        state.withLock { state in
            state.projects[project] = nil
            state.asked.removeAll { $0.project == project }
        }
    }

    /// `nil` where too many projects are known to take another one.
    private static func kept(of project: String, in state: State) -> Kept? {
        state.projects[project] ?? (state.projects.count < projectsMax ? Kept() : nil)
    }
}
