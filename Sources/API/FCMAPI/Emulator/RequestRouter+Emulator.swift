import Credentials
import HTTPMessages
import Model
import Routing

// /emulator/v1/projects/{project}/…, on a development server only, without a credential.

extension RequestRouter {
    func emulate(_ endpoint: Endpoint) throws(APIError) -> APIAction {
        guard let emulator = api.settings.emulator else { throw .notFoundHere }
        let name = String(decoding: try segment(3), as: UTF8.self)
        guard Project.isValid(name.utf8) else { throw .projectUnknown }
        switch endpoint {
        case .forgetEmulated:
            emulator.forget(name)
            return api.directory.project(name).map { .admin(.deleteProject($0)) } ?? .respond(nothing)
        case .listEmulatedMessages: return .respond(messages(of: name, emulator))
        case .forgetEmulatedMessages:
            emulator.forgetMessages(of: name)
            return .respond(nothing)
        case .forgetFaults: emulator.forgetFaults(of: name)
        case .addFault:
            guard emulator.add(try Fault(try json()), to: name) else {
                throw APIError(
                    status: .failedPrecondition,
                    message:
                        "The project has \(Emulator.faultsMax) faults already, or too many other projects"
                        + " have faults.")
            }
        default: break
        }
        return .respond(faults(of: name, emulator))
    }

    private var nothing: HTTPResponse { API.object { _ in } }

    private func messages(of project: String, _ emulator: Emulator) -> HTTPResponse {
        let sent = emulator.messages(of: project)
        return API.object { out in
            out.key("messages")
            out.beginArray()
            for one in sent {
                out.beginObject()
                out.key("name")
                out.beginString("projects/")
                out.part(project)
                out.part("/messages/" as StaticString)
                out.part(one.id)
                out.endString()
                out.key("sentTime")
                out.number(one.time.milliseconds)
                out.key("message")
                out.raw(String(decoding: one.message, as: UTF8.self))
                out.endObject()
            }
            out.endArray()
        }
    }

    private func faults(of project: String, _ emulator: Emulator) -> HTTPResponse {
        let faults = emulator.faults(of: project)
        return API.object { out in
            out.key("faults")
            out.beginArray()
            for fault in faults { fault.write(to: &out) }
            out.endArray()
        }
    }

    // MARK: Faults

    /// The fault that the request itself asks for with `x-tidecast-fault`.
    func fieldFault() throws(APIError) -> Fault? {
        guard api.settings.emulator != nil, let field = request.fields.string("x-tidecast-fault") else {
            return nil
        }
        return try Fault(field: field)
    }

    /// What the loop must do with a send that was read: the send, or the fault that a test has asked for.
    func emulate(_ send: Send, _ message: ReadMessage, body: JSONValue, in project: Project) -> APIAction {
        let action = APIAction.operation(.send(send), ResponseForm(kind: .send, project: project))
        guard let emulator = api.settings.emulator else { return action }
        var device: [UInt8]?
        switch message.target {
        case .fid(let text), .token(let text): device = text
        case .topic, .condition: break
        }
        let fault = emulator.takeFault(of: project.id, device: device)
        if let answer = fault?.answer {
            return later(fault, .respond(answer.error.response()))
        }
        var out = JSONWriter()
        for (name, value) in body.uniqueFields() where Schema.equal(name, "message") { out.value(value) }
        emulator.asked(Emulator.Sent(id: id, time: now, message: out.bytes), of: project.id)
        return later(fault, action)
    }

    func later(_ fault: Fault?, _ action: APIAction) -> APIAction {
        guard let fault, fault.delay > .zero else { return action }
        return .later(fault.delay, action)
    }
}
