export { sampleApiComponent } from './component.ts'
export {
  addUser,
  changePassword,
  openUserDirectory,
  PRESET_USER,
  removeUser,
  type Users,
  usersInFolder,
} from './users.ts'
