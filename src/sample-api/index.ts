export { type SampleApiDeps, sampleApiComponent } from './component.ts'
export { UserError, type UserErrorCode } from './errors.ts'
export type { SampleServiceDeps } from './service.ts'
export { openUserBook, PRESET_USER, UserBook, type UserSources } from './user-book.ts'
export { usersInFolder } from './user-file.ts'
export {
  addUser,
  changePassword,
  removeUser,
  type User,
  type Users,
} from './users.ts'
