import DequeModule
import Model
import Synchronization

/// What a development server does for tests of backends: it lists the messages that it has accepted, and
/// gives the answers that a test asks for. The loops of one process share one emulator, and nothing of it is
/// stored.
public final class Emulator: Sendable {
    /// The newest messages of a project that are kept.
    static let messagesMax = 1000
    /// Sends under way, which are kept as messages once they are accepted. Past the bound the oldest is
    /// forgotten.
    static let askedMax = 1000
    /// Faults of one project that may wait for a send.
    static let faultsMax = 100
    /// Projects with messages or faults.
    static let projectsMax = 1000

    /// A message that was accepted.
    struct Sent: Sendable {
        var id: MessageID
        var time: WallTime
        /// The message as the backend wrote it, in compact JSON.
        var message: [UInt8]
    }
    private struct Asked {
        var project: String
        var sent: Sent
    }
    private struct Kept {
        var messages: Deque<Sent> = []
        var faults: [Fault] = []
    }
    private struct State {
        var asked: Deque<Asked> = []
        var projects: [String: Kept] = [:]
    }
    private let state = Mutex(State())

    public init() {}

    // MARK: Messages

    /// A send was read. `accepted` follows if it is accepted.
    func asked(_ sent: Sent, of project: String) {
        state.withLock { state in
            if state.asked.count >= Emulator.askedMax { state.asked.removeFirst() }
            state.asked.append(Asked(project: project, sent: sent))
        }
    }

    func accepted(_ id: MessageID) {
        state.withLock { state in
            // Answers come nearly in the order of the sends.
            guard let index = state.asked.firstIndex(where: { $0.sent.id == id }) else { return }
            let asked = state.asked.remove(at: index)
            Emulator.withKept(of: asked.project, in: &state) { kept in
                if kept.messages.count >= Emulator.messagesMax { kept.messages.removeFirst() }
                kept.messages.append(asked.sent)
            }
        }
    }

    /// The project's messages, the oldest first.
    func messages(of project: String) -> [Sent] {
        state.withLock { Array($0.projects[project]?.messages ?? []) }
    }

    func forgetMessages(of project: String) {
        state.withLock { $0.projects[project]?.messages = [] }
    }

    // MARK: Faults

    /// Returns false if too many faults wait already.
    func add(_ fault: Fault, to project: String) -> Bool {
        state.withLock { state in
            Emulator.withKept(of: project, in: &state) { kept in
                guard kept.faults.count < Emulator.faultsMax else { return false }
                kept.faults.append(fault)
                return true
            } ?? false
        }
    }

    func faults(of project: String) -> [Fault] {
        state.withLock { $0.projects[project]?.faults ?? [] }
    }

    func forgetFaults(of project: String) {
        state.withLock { $0.projects[project]?.faults = [] }
    }

    /// Takes the first fault that concerns a send of the project. The fault counts as given once.
    func takeFault(of project: String, device: [UInt8]?) -> Fault? {
        state.withLock { state in
            guard let faults = state.projects[project]?.faults,
                let index = faults.firstIndex(where: { $0.concerns(device) })
            else { return nil }
            let fault = faults[index]
            if let times = fault.times {
                state.projects[project]?.faults[index].times = times - 1
                if times <= 1 { state.projects[project]?.faults.remove(at: index) }
            }
            return fault
        }
    }

    /// Forgets all that is kept of the project.
    func forget(_ project: String) {
        state.withLock { state in
            state.projects[project] = nil
            state.asked.removeAll { $0.project == project }
        }
    }

    /// Changes what is kept of the project, in its place. `nil` for another project if there are too many
    /// projects already.
    private static func withKept<Result>(
        of project: String, in state: inout State, _ body: (inout Kept) -> Result
    ) -> Result? {
        guard state.projects[project] != nil || state.projects.count < projectsMax else { return nil }
        return body(&state.projects[project, default: Kept()])
    }
}
