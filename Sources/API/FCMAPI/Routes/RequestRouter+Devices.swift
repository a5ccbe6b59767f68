import Credentials
import Model
import RegistrationIDs
import Routing

// The device in a path below /v1/projects/{project}/registrations, and who speaks for it.

extension RequestRouter {
    /// The project of a request about a device. Such a request creates no project, also on a development
    /// server, and a missing project is no proof that the device is gone: the server may be the wrong one, or
    /// have lost its data. The answer is that for another's project.
    ///
    /// - Parameter installation: the answer to a client that shows no installation of the project.
    func known(_ name: String, installation: APIError? = nil) throws(APIError) -> Project {
        var refusal = unknownProject
        do throws(APIError) {
            if case .known(let project) = try project(name) { return project }
        } catch {
            refusal = error
        }
        guard principal == nil else { throw fate(or: refusal) }
        throw installation.map(fate) ?? withoutProject
    }

    /// The answer to a client without a backend's credential. It depends on the device's id alone, so that
    /// nobody learns which projects exist.
    private var withoutProject: APIError {
        guard showsDevice, let text = target.decoded(4) else { return .unauthenticated }
        do throws(APIError) {
            let foreign = try registration(text, in: nil, field: "name")
            return fate(or: APIError(api.directory.refusal(ofForeign: foreign), project: "", field: "name"))
        } catch {
            return fate(or: error)
        }
    }

    /// Whether the request has what only a device has, right or wrong.
    private var showsDevice: Bool { credential != nil || installation != nil }

    /// What the id of the device in the path proves without its project: that the device is gone, or that
    /// this node must learn more before it answers (rule: proven-answers). Otherwise `refusal`.
    func fate(or refusal: APIError) -> APIError {
        if isAdmin { return refusal }
        if case .project = principal { return refusal }
        guard let text = target.decoded(4) else { return refusal }
        switch read(api.keys.decipher(text)).flatMap({ api.directory.owner(of: $0) }) {
        case .failure(.unregistered): return APIError(.unregistered, project: "", field: "name")
        case .failure(.unavailable(let reason)):
            return APIError(.unavailable(reason), project: "", field: "name")
        case .success, .failure: return refusal
        }
    }

    /// The device in the path, for a backend of the project or for a client that shows a device's credential.
    /// Everybody else gets the same answer for a project that exists as for one that does not.
    func ownRegistration(in project: Project) throws(APIError) -> Registration {
        if case .project(let number) = principal, number != project.number { throw .permissionDenied }
        do throws(APIError) {
            return try registration(try segment(4), in: project, field: "name")
        } catch {
            guard principal == nil else { throw error }
            throw showsDevice ? fate(or: error) : .unauthenticated
        }
    }

    /// The device by its own credential or its installation's token, or a backend with authority over the
    /// project.
    func caller(_ project: Project, _ device: Registration) throws(APIError) -> Caller {
        switch principal {
        case .owner: return .backend
        case .operator: throw .permissionDenied
        case .project(let number):
            guard number == project.number else { throw .permissionDenied }
            return .backend
        case nil:
            guard let own = try ownCaller(device) else { throw .unauthenticated }
            return own
        }
    }

    /// The device by its own credential or its installation's token; `nil` if the request has neither.
    func ownCaller(_ device: Registration) throws(APIError) -> Caller? {
        if let installation {
            guard installation.device.isSameDevice(as: device) else { throw .permissionDenied }
            // The token proves that the request speaks for this device, as a backend may.
            return .backend
        }
        return credential.map { .device($0) }
    }
}
